import { randomUUID } from 'node:crypto';
import { writeFileSync } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import type { SweepReport } from '../../src/jobs/context.ts';
import { keys, ownedAnnotations, ownedLabels, sharedLabels } from '../../src/kubernetes/ownership.ts';
import type { Kind } from '../../src/kubernetes/port.ts';
import { claimName, instanceHash, podName } from '../../src/names.ts';
import { type EmbeddedCluster, startCluster } from '../support/cluster.ts';
import { root } from '../support/root.ts';
import { atOnce } from '../support/sweeps-by-hand.ts';
import { createWorld, type World } from '../support/world.ts';

let dir: string;
let embedded: EmbeddedCluster;
let world: World;
const rules = (...list: object[]) => writeFileSync(join(dir, 'faults.yaml'), JSON.stringify({ rules: list }));
/** Of `expired`, the grace is how long before the end its user is told. */
const sweepsNow = {
  orphans: atOnce,
  ghosts: atOnce,
  'config-maps': atOnce,
  stuck: atOnce,
  expired: { ...atOnce, graceSeconds: 300 },
};

const day = 86_400_000;
const aDayLater = { fault: { clock_skew_ms: day + 3_600_000 } };

async function run(kinds: readonly string[], more: object = {}): Promise<readonly SweepReport[]> {
  const { jobId } = await world.operator.producer.sweep({ version: 1, kinds, ...more });
  return (await world.operator.producer.sweepReports(jobId, 30_000)).reports;
}
const one = async (kind: string, more: object = {}) => (await run([kind], more))[0] as SweepReport;
const entryOf = (report: SweepReport, name: string) => report.entries.find((entry) => entry.name === name);

/** What a worker that lost its mind would leave behind: an object with all our marks and no record. */
async function leak(
  kind: Exclude<Kind, 'configmaps'>,
  instanceId: string = randomUUID(),
  installation = 'test',
  generation = 100,
): Promise<string> {
  const hash = instanceHash(installation, instanceId);
  const identity = { installation, instanceId, hash, owner: 'ann', cluster: 'default', profile: 'node' };
  const name = kind === 'pods' ? podName(hash) : claimName(hash);
  const marks = { nonce: 'f'.repeat(64), generation, specHash: 'x' };
  const metadata = {
    name,
    namespace: 'default',
    labels: ownedLabels(identity),
    annotations: ownedAnnotations({ ...identity, ...marks }),
  };
  const spec =
    kind === 'pods'
      ? { containers: [{ name: 'agent', image: 'fault.local/never', command: ['sleep', '60'] }] }
      : { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Mi' } } };
  await world.cluster.create(kind, { metadata, spec } as never);
  return name;
}
const exists = async (kind: Kind, name: string) => {
  const object = await world.cluster.read(kind, name);
  return object !== undefined && object.metadata?.deletionTimestamp === undefined;
};

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'windlass-sweeps-'));
  rules();
  embedded = await startCluster({ faults: join(dir, 'faults.yaml') });
  world = await createWorld({
    kubeconfig: embedded.kubeconfig,
    namespace: 'default',
    image: 'node:24',
    config: { sweeps: sweepsNow, limits: { maxLifetimeSeconds: 90_000 } },
  });
  await world.worker();
});
afterAll(async () => {
  await world?.stop();
  await embedded?.close();
  await rm(dir, { recursive: true, force: true });
});
beforeEach(() => rules());

describe('C39: every kind that the shipped Role lets us create', () => {
  it('is found when leaked, removed in the second pass with rule and evidence (C45), and a dry run says so without doing it', async () => {
    const role = parseAllDocuments(await readFile(join(root, 'deploy/base/rbac.yaml'), 'utf8'))
      .map((document) => document.toJS())
      .find((document) => document.kind === 'Role');
    const created: string[] = role.rules
      .filter((rule: { verbs: string[] }) => rule.verbs.includes('create'))
      .flatMap((rule: { resources: string[] }) => rule.resources);
    const kinds = created.filter((resource) => !resource.includes('/')).sort();
    expect(kinds).toEqual(['configmaps', 'persistentvolumeclaims', 'pods']);

    const map = `windlass-agent-${'a'.repeat(40)}`;
    await world.cluster.create('configmaps', { metadata: { name: map, labels: sharedLabels('test', 'agent') }, data: {} });
    const leaked: [Kind, string][] = [
      ['pods', await leak('pods')],
      ['persistentvolumeclaims', await leak('persistentvolumeclaims')],
      ['configmaps', map],
    ];
    rules(aDayLater);
    for (const [pass, action] of [
      ['first', 'none'],
      ['dry', 'would_delete'],
      ['second', 'deleted'],
    ] as const) {
      const reports = await run(['orphans', 'config-maps'], { dryRun: pass === 'dry' });
      for (const [kind, name] of leaked) {
        const entry = reports.map((report) => entryOf(report, name)).find((found) => found !== undefined);
        expect(entry, `${kind} in the ${pass} pass`).toMatchObject({
          kind,
          action,
          rule: expect.stringMatching(/no_record|nothing_uses_it/),
          evidence: { ageSeconds: expect.any(Number) },
        });
        expect(await exists(kind, name)).toBe(pass !== 'second');
      }
    }
    expect((await world.operator.producer.lastSweeps()).find((report) => report.sweep === 'orphans')).toMatchObject({
      deleted: 2,
    });
  });

  it('C40: none of what we make has a finalizer or an owner of another kind', async () => {
    await world.operator.producer.launch({ version: 1, instanceId: 'plain', profile: 'node' });
    const record = await world.ready('plain');
    const objects = [
      await world.cluster.read('pods', podName(record.hash)),
      await world.cluster.read('persistentvolumeclaims', claimName(record.hash)),
    ];
    expect(objects[0]?.metadata?.finalizers ?? []).toEqual([]);
    expect((objects[1]?.metadata?.finalizers ?? []).filter((name) => name !== 'kubernetes.io/pvc-protection')).toEqual([]);
    expect(objects.flatMap((object) => object?.metadata?.ownerReferences ?? [])).toEqual([]);
    for await (const page of world.cluster.listMetadata('configmaps', `${keys.installation}=test`)) {
      expect(page.items.flatMap((meta) => [...(meta.finalizers ?? []), ...(meta.ownerReferences ?? [])])).toEqual([]);
    }
    await world.operator.producer.teardown({ version: 1, instanceId: 'plain' });
    await world.gone('plain');
  });
});

describe('what a sweep must not touch', () => {
  it('C35: an object younger than the grace by the cluster’s clock stays, although our clock is ten minutes ahead', async () => {
    const slow = await createWorld({
      kubeconfig: embedded.kubeconfig,
      namespace: 'default',
      image: 'node:24',
      config: { installation: 'young', sweeps: { orphans: { cron: '0 0 1 1 *', graceSeconds: 300 } } },
    });
    try {
      await slow.worker();
      rules({ fault: { clock_skew_ms: -600_000 } });
      const name = await leak('pods', 'young', 'young');
      for (let pass = 0; pass < 3; pass++) {
        const { jobId } = await slow.operator.producer.sweep({ version: 1, kinds: ['orphans'] });
        const { reports } = await slow.operator.producer.sweepReports(jobId, 30_000);
        expect(entryOf(reports[0] as SweepReport, name)).toMatchObject({ verdict: 'watch', evidence: { waitsFor: 'grace' } });
      }
      expect(await exists('pods', name)).toBe(true);
    } finally {
      rules();
      await slow.stop();
    }
  });

  it('C42: another installation in the same namespace is not even looked at', async () => {
    const name = await leak('pods', 'theirs', 'other');
    for (let pass = 0; pass < 2; pass++) expect(entryOf(await one('orphans'), name)).toBeUndefined();
    expect(await exists('pods', name)).toBe(true);
  });

  it('C33: with records that cannot be read, nothing is deleted and the sweep says why', async () => {
    const name = await leak('persistentvolumeclaims', 'unreadable');
    await one('orphans');
    const raw = new Redis(world.redis.url);
    const key = `{windlass:test:inventory}:record:${instanceHash('test', 'unreadable')}`;
    await raw.set(key, 'not a hash');
    expect(await one('orphans')).toMatchObject({ deleted: 0, stopped: { code: expect.any(String) } });
    expect(await exists('persistentvolumeclaims', name)).toBe(true);
    await raw.del(key);
    raw.disconnect();
    await one('orphans');
    await one('orphans');
    expect(await exists('persistentvolumeclaims', name)).toBe(false);
  });

  it('a replacement of the same name between list and delete is left alone', async () => {
    const name = await leak('persistentvolumeclaims', 'replaced');
    await one('orphans');
    const before = await world.cluster.read('persistentvolumeclaims', name);
    // Between the listing and the GET under the lease: the sweep's own GET is slow.
    rules({ verb: 'get', resource: 'persistentvolumeclaims', name, fault: { delayMs: 1500 } });
    const sweeping = one('orphans');
    await world.cluster.remove('persistentvolumeclaims', name, { uid: before?.metadata?.uid ?? '' });
    await leak('persistentvolumeclaims', 'replaced');
    const report = await sweeping;
    expect(entryOf(report, name)).not.toMatchObject({ action: 'deleted' });
    rules();
    const after = await world.cluster.read('persistentvolumeclaims', name);
    expect(after?.metadata?.uid).not.toBe(before?.metadata?.uid);
    expect(after?.metadata?.deletionTimestamp).toBeUndefined();
  });

  it('an object that was patched after it was judged survives a stale sweeper', async () => {
    const name = await leak('persistentvolumeclaims', 'adopted');
    const meta = (await world.cluster.read('persistentvolumeclaims', name))?.metadata ?? {};
    await world.cluster.patch('persistentvolumeclaims', name, { metadata: { annotations: { [keys.recovered]: 'now' } } });
    const stale = world.cluster.remove('persistentvolumeclaims', name, {
      uid: meta.uid ?? '',
      resourceVersion: meta.resourceVersion ?? '',
    });
    await expect(stale).rejects.toMatchObject({ code: 'conflict' });
    expect(await exists('persistentvolumeclaims', name)).toBe(true);
  });

  it('many candidates at once stop the sweep until somebody says so', async () => {
    const names = await Promise.all(Array.from({ length: 12 }, (_, index) => leak('persistentvolumeclaims', `many-${index}`)));
    await one('orphans');
    expect(await one('orphans')).toMatchObject({ deleted: 0, stopped: { code: 'mass_delete_refused' } });
    expect(await Promise.all(names.map((name) => exists('persistentvolumeclaims', name)))).not.toContain(false);
    expect((await one('orphans', { ackMassDelete: true })).deleted).toBeGreaterThanOrEqual(12);
  });
});

describe('records', () => {
  it('a Pod removed by somebody is written down as lost; without its claim the record goes too', async () => {
    await world.operator.producer.launch({ version: 1, instanceId: 'ghost', profile: 'node' });
    const record = await world.ready('ghost');
    await world.cluster.remove('pods', podName(record.hash), { uid: record.pod?.uid ?? '', graceSeconds: 1 });
    await expect.poll(() => world.cluster.read('pods', podName(record.hash)), { timeout: 20_000 }).toBeUndefined();
    // A worker's watch marks the claim and writes it down, so that a recovery knows it from the rest of a removal.
    await world.until('ghost', (current) => current?.state === 'lost');
    const marked = async () =>
      (await world.cluster.read('persistentvolumeclaims', claimName(record.hash)))?.metadata?.annotations?.[keys.retained];
    expect(await marked()).toBe('true');
    expect(entryOf(await one('ghosts'), 'ghost')).toBeUndefined();
    // Where the worker could not, the sweep does.
    await world.cluster.patch('persistentvolumeclaims', claimName(record.hash), {
      metadata: { annotations: { [keys.retained]: null } },
    });
    expect(entryOf(await one('ghosts'), 'ghost')).toMatchObject({ rule: 'claim_not_marked', action: 'done' });
    expect(await marked()).toBe('true');

    await world.operator.producer.launch({ version: 1, instanceId: 'ghost', profile: 'node' });
    const again = await world.ready('ghost');
    expect(again.workspace?.claimUid).toBe(record.workspace?.claimUid);
    expect(again.pod?.uid).not.toBe(record.pod?.uid);

    await world.cluster.remove('pods', podName(record.hash), { uid: again.pod?.uid ?? '', graceSeconds: 1 });
    await expect.poll(() => world.cluster.read('pods', podName(record.hash)), { timeout: 20_000 }).toBeUndefined();
    await world.cluster.remove('persistentvolumeclaims', claimName(record.hash), { uid: again.workspace?.claimUid ?? '' });
    await one('ghosts');
    expect(entryOf(await one('ghosts'), 'ghost')).toMatchObject({ rule: 'nothing_left', action: 'done' });
    await world.gone('ghost');
  });

  it('C41: a launch without a lifetime has the configured one; its user is told before it ends; then it ends as agreed', async () => {
    const { producer, inventory } = world.operator;
    await producer.launch({ version: 1, instanceId: 'default', profile: 'node' });
    const record = await world.ready('default');
    expect(record.lifetime).toMatchObject({ maxSeconds: 86_400 });
    expect(record.expiresAt - record.readyAt).toBe(day);

    await producer.launch({
      version: 1,
      instanceId: 'brief',
      profile: 'node',
      lifetime: { maxSeconds: 60, onExpire: 'suspend' },
    });
    const brief = await world.ready('brief');
    const told = async () => (await inventory.events('brief', 0, 100)).filter((event) => event.type === 'expiring');
    expect(entryOf(await one('expired'), 'brief')).toMatchObject({ rule: 'ends_soon', verdict: 'warn', action: 'done' });
    expect(await told()).toMatchObject([{ expiresAt: new Date(brief.expiresAt).toISOString(), atTheEnd: 'suspend' }]);
    await one('expired');
    expect(await told()).toHaveLength(1);
    const raw = new Redis(world.redis.url);
    await raw.hset(`{windlass:test:inventory}:record:${brief.hash}`, 'expiresAt', String(Date.now() - 1000));
    await raw.zadd('{windlass:test:inventory}:expiry', String(Date.now() - 1000), brief.hash);
    raw.disconnect();
    expect(entryOf(await one('expired'), 'brief')).toMatchObject({ rule: 'lifetime_over', verdict: 'suspend', action: 'done' });
    const suspended = await world.until('brief', (current) => current?.state === 'suspended');
    expect((await inventory.events('brief', 0, 100)).map((event) => event.type)).toContain('expired');
    expect((suspended?.expiresAt ?? 0) - Date.now()).toBeGreaterThan(day);
    for (const instanceId of ['brief', 'default']) await producer.teardown({ version: 1, instanceId });
    for (const instanceId of ['brief', 'default']) await world.gone(instanceId);
  });

  it('a lifetime is extended up to the limits', async () => {
    const { producer } = world.operator;
    await producer.launch({ version: 1, instanceId: 'longer', profile: 'node', lifetime: { maxSeconds: 60 } });
    const record = await world.ready('longer');
    const extended = await producer.extend({ version: 1, instanceId: 'longer', bySeconds: 3600 });
    expect(extended).toEqual({
      instanceId: 'longer',
      expiresAt: new Date(record.expiresAt + 3_600_000).toISOString(),
      clamped: false,
    });
    const most = await producer.extend({ version: 1, instanceId: 'longer', bySeconds: 86_400 });
    expect(most).toMatchObject({ clamped: true, expiresAt: new Date(record.readyAt + 90_000_000).toISOString() });
    await producer.teardown({ version: 1, instanceId: 'longer' });
    await world.gone('longer');
    await expect(producer.extend({ version: 1, instanceId: 'longer', bySeconds: 1 })).rejects.toMatchObject({
      code: 'instance_gone',
    });
  });

  it('what a create of long ago left behind is removed, and its intent closed', async () => {
    const raw = new Redis(world.redis.url);
    await world.operator.producer.launch({ version: 1, instanceId: 'open create', profile: 'scratch', prepare: 'exit 1' });
    const record = await world.until('open create', (current) => current?.state === 'failed');
    const hash = record?.hash ?? '';
    const intent = {
      kind: 'persistentvolumeclaims',
      name: claimName(hash),
      nonce: 'f'.repeat(64),
      generation: record?.generation,
      sentAt: 1,
      open: true,
    };
    await raw.hset(`{windlass:test:inventory}:record:${hash}`, 'creates', JSON.stringify({ persistentvolumeclaims: intent }));
    raw.disconnect();
    const name = await leak('persistentvolumeclaims', 'open create');
    await one('stuck');
    expect(entryOf(await one('stuck'), 'open create')).toMatchObject({
      rule: 'create_never_settled',
      action: 'done',
      evidence: { removed: [`persistentvolumeclaims/${name}`] },
    });
    expect(await exists('persistentvolumeclaims', name)).toBe(false);
    expect((await world.operator.inventory.read('open create'))?.creates).toEqual({});
  });

  it('C25: a claim of a failed launch that binds when its rollback is long over is taken in the second pass', async () => {
    const instanceId = 'bound late';
    await world.operator.producer.launch({ version: 1, instanceId, profile: 'node', prepare: 'exit 1' });
    const record = await world.until(instanceId, (current) => current?.state === 'failed');
    const name = await leak('persistentvolumeclaims', instanceId, 'test', record?.generation);
    const containers = [{ name: 'user', image: 'node:24', command: ['sleep', '600'] }];
    const volumes = [{ name: 'claim', persistentVolumeClaim: { claimName: name } }];
    const user = await world.cluster.create('pods', { metadata: { name: 'user' }, spec: { containers, volumes } } as never);
    await expect.poll(async () => (await world.cluster.read('persistentvolumeclaims', name))?.status?.phase).toBe('Bound');
    await world.cluster.remove('pods', 'user', { uid: user.metadata?.uid ?? '', graceSeconds: 0 });
    rules(aDayLater);
    expect(entryOf(await one('orphans'), name)).toMatchObject({ action: 'none' });
    expect(entryOf(await one('orphans'), name)).toMatchObject({ action: 'deleted', rule: 'not_in_the_record' });
    expect(await exists('persistentvolumeclaims', name)).toBe(false);
  });

  it('an object that stays Terminating is told, with what holds it', async () => {
    const name = await leak('persistentvolumeclaims', 'held');
    const meta = (await world.cluster.read('persistentvolumeclaims', name))?.metadata;
    await world.cluster.patch('persistentvolumeclaims', name, { metadata: { finalizers: ['example.org/somebody'] } });
    await world.cluster.remove('persistentvolumeclaims', name, { uid: meta?.uid ?? '' });
    expect(entryOf(await one('stuck'), name)).toMatchObject({
      rule: 'stays_terminating',
      verdict: 'report',
      action: 'none',
      evidence: { finalizers: ['example.org/somebody'] },
    });
    await world.cluster.patch('persistentvolumeclaims', name, { metadata: { finalizers: null } });
  });

  it('a launch whose job was lost with its queue is taken up again', async () => {
    const { producer } = world.operator;
    const { launch } = await producer.queues();
    await launch.pause();
    const accepted = await producer.launch({ version: 1, instanceId: 'lost job', profile: 'scratch' });
    await launch.remove(accepted.jobId);
    await launch.resume();
    await one('stuck');
    expect(entryOf(await one('stuck'), 'lost job')).toMatchObject({
      rule: 'job_lost',
      action: 'done',
      evidence: { jobId: accepted.jobId },
    });
    await world.ready('lost job');
    await producer.teardown({ version: 1, instanceId: 'lost job' });
    await world.gone('lost job');
  });
});
