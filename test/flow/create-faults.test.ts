import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { keys } from '../../src/kubernetes/ownership.ts';
import { claimName, podName } from '../../src/names.ts';
import { type FaultyCluster, startFaultyCluster } from '../support/fault-plan.ts';
import { recordEffects } from '../support/resume-steps.ts';
import { createWorld, type World } from '../support/world.ts';

let embedded: FaultyCluster;
let world: World;
beforeAll(async () => {
  embedded = await startFaultyCluster();
  world = await createWorld({ kubeconfig: embedded.kubeconfig, namespace: 'default', image: 'node:24' });
  await world.worker();
});
afterAll(async () => {
  await world?.stop();
  await embedded?.close();
});

type Kind = 'pods' | 'persistentvolumeclaims';
const nameOf = (id: string, kind: Kind) => {
  const hash = world.operator.inventory.hashOf(id);
  return kind === 'pods' ? podName(hash) : claimName(hash);
};
const launch = (id: string, more: object = {}) =>
  world.operator.producer.launch({ version: 1, instanceId: id, profile: 'node', ...more });
const failed = (id: string) => world.until(id, (record) => record?.state === 'failed');
/** Of this instance only: a rollback with an open create waits a minute for what may still land (I5). */
const leftoversOf = async (id: string) =>
  (await world.leftovers()).filter((name) => name.includes(world.operator.inventory.hashOf(id)));
const events = async (id: string, type: string) =>
  (await world.operator.inventory.events(id, 0, 500)).filter((event) => event.type === type);
const onCreate = (resource: Kind, fault: unknown) => [{ verb: 'create', resource, nth: 1, fault }];

describe.each<Kind>(['pods', 'persistentvolumeclaims'])('a create of %s', (kind) => {
  it('C02 whose answer is lost is found by its nonce, and goes with the launch that fails later: one create, one rollback', async () => {
    const id = `lost answer ${kind}`;
    const effects = recordEffects();
    await embedded.withFaults(onCreate(kind, 'commit_then_drop'), async () => {
      await launch(id, { prepare: 'exit 9' });
      expect((await failed(id))?.failure).toMatchObject({ code: 'prepare_failed', stage: 'bootstrap' });
    });
    expect(effects.stop().filter((name) => name === `kube.create.${kind}`)).toHaveLength(1);
    expect(await events(id, 'rolled_back')).toHaveLength(1);
    expect(await leftoversOf(id)).toEqual([]);
  });

  it.each([
    ['already exists', undefined, undefined],
    ['already exists', undefined, 'f'.repeat(64)],
    ['is not answered', 'drop_before', undefined],
    ['is not answered', 'drop_before', 'f'.repeat(64)],
  ])('C02 that %s (fault %s) takes nothing that has another nonce (%s), and deletes nothing', async (_what, fault, nonce) => {
    const id = `taken ${kind} ${fault} ${nonce}`;
    const name = nameOf(id, kind);
    const foreign = await world.cluster.create(kind, foreignObject(kind, name, nonce));
    await embedded.withFaults(fault === undefined ? [] : onCreate(kind, fault), async () => {
      await launch(id);
      const record = await world.until(id, (current) => current?.failure?.code === 'name_conflict');
      expect(record?.failure).toMatchObject({
        retriable: false,
        attemptsLeft: 0,
        evidence: { name, uid: foreign.metadata?.uid },
      });
      expect(kind === 'pods' ? record?.pod : record?.workspace).toBeNull();
    });
    const after = await world.cluster.read(kind, name);
    expect(after?.metadata).toMatchObject({ uid: foreign.metadata?.uid });
    expect(after?.metadata?.deletionTimestamp).toBeUndefined();
    await world.cluster.remove(kind, name, { uid: foreign.metadata?.uid ?? '', ...(kind === 'pods' ? { graceSeconds: 0 } : {}) });
    await expect.poll(() => world.cluster.read(kind, name)).toBeUndefined();
  });

  it('that a webhook changed in what is ours is rolled back by its UID, whatever its labels say now', async () => {
    const id = `mutated ${kind}`;
    const mallory = { op: 'replace', path: `/metadata/labels/${keys.owner.replace('/', '~1')}`, value: 'mallory' };
    await embedded.withFaults(onCreate(kind, { mutate: [mallory] }), async () => {
      await launch(id);
      expect((await failed(id))?.failure).toMatchObject({
        code: 'admission_mismatch',
        retriable: false,
        evidence: { issues: [{ path: `metadata.labels.${keys.owner}` }] },
      });
    });
    expect(await world.cluster.read(kind, nameOf(id, kind))).toBeUndefined();
    expect(await leftoversOf(id)).toEqual([]);
  });
});

it('a launch whose forwards fail to start or die is ready with the first that works, in the same attempt', async () => {
  const on = (times: number, fault: string) => ({ verb: 'create', resource: 'pods', subresource: 'portforward', times, fault });
  await embedded.withFaults([on(2, 'forward_reset'), on(2, 'forward_refuse')], async () => {
    await launch('forwards');
    expect(await world.ready('forwards')).toMatchObject({ attemptsLeft: 3, run: 1 });
  });
  expect(await events('forwards', 'retrying')).toEqual([]);
  expect((await world.exec('forwards', ['echo', 'hi'])).stdout).toBe('hi\n');
  await world.operator.producer.teardown({ version: 1, instanceId: 'forwards' });
  await world.gone('forwards');
});

function foreignObject(kind: Kind, name: string, nonce: string | undefined) {
  const labels = { [keys.installation]: 'test', 'app.kubernetes.io/managed-by': 'windlass' };
  const metadata = { name, labels, ...(nonce === undefined ? {} : { annotations: { [keys.nonce]: nonce } }) };
  if (kind === 'persistentvolumeclaims')
    return { metadata, spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Mi' } } } };
  return {
    metadata,
    spec: { containers: [{ name: 'sleeper', image: 'busybox:1', command: ['sleep', '600'] }], terminationGracePeriodSeconds: 1 },
  };
}
