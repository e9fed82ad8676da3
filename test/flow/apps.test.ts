import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { toInstance } from '../../src/inventory/view.ts';
import { appSteps, appsConfig } from '../support/apps-flow.ts';
import { type EmbeddedCluster, startCluster } from '../support/cluster.ts';
import { flushAll } from '../support/recover-flow.ts';
import { createWorld, type World } from '../support/world.ts';

let embedded: EmbeddedCluster;
let world: World;
let steps: ReturnType<typeof appSteps>;
const foreignTemplate = `apiVersion: v1
kind: PodTemplate
template:
  spec:
    containers: [{ name: agent, image: registry.invalid/team/agent:1 }]
`;

beforeAll(async () => {
  embedded = await startCluster();
  const profile = { podTemplateFile: 'profiles/node.yaml', workspace: { mode: 'empty_dir' } };
  const profiles = {
    node: profile,
    foreign: { workspace: profile.workspace, podTemplate: foreignTemplate },
    copied: { ...profile, agent: { delivery: 'init_image', image: 'registry.invalid/team/runtime:24' } },
  };
  const config = { installation: 'apps', profiles, ...appsConfig('busybox') };
  world = await createWorld({ kubeconfig: embedded.kubeconfig, namespace: 'default', image: 'node:24', config });
  steps = appSteps(world);
  await world.worker();
});
afterAll(async () => {
  await world.stop();
  await embedded.close();
});

describe('an app', () => {
  it('runs its image without an agent, and is ready when it runs', async () => {
    const record = await steps.launch('runs', 'stays');
    expect(record).toMatchObject({
      agent: null,
      exitCode: null,
      stages: [{ name: 'workspace' }, { name: 'pod' }, { name: 'ready' }],
    });
    const pod = await steps.pod(record);
    expect(pod?.spec).toMatchObject({ restartPolicy: 'Never', automountServiceAccountToken: false });
    expect(JSON.stringify(pod)).not.toContain('windlass-agent');
    await steps.removed('runs');
  });

  it("has the operator's environment over the caller's, of which it takes what is allowed", async () => {
    const request = { env: { OPEN: 'of the caller', OWN: 'of the caller' } };
    const record = await steps.launch('env', 'stays', request);
    const main = (await steps.pod(record))?.spec?.containers[0];
    expect(main?.env?.filter(({ name }) => ['OWN', 'OPEN'].includes(name))).toEqual([
      { name: 'OWN', value: 'of the operator' },
      { name: 'OPEN', value: 'of the caller' },
    ]);
    const refused = steps.request('other', 'stays', { env: { OTHER: 'x' } });
    await expect(refused).rejects.toMatchObject({ code: 'payload_invalid', issues: [{ path: 'env.OTHER' }] });
    await steps.removed('env');
  });

  it('refuses what only an agent could do, and an image that is not allowed, before anything is written', async () => {
    for (const [field, value] of [
      ['prepare', 'true'],
      ['repository', { url: 'https://example.com/x.git' }],
      ['secretEnv', { S: 'x' }],
    ] as const)
      await expect(steps.request('refused', 'stays', { [field]: value })).rejects.toMatchObject({
        code: 'payload_invalid',
        issues: expect.arrayContaining([{ path: field, message: expect.stringContaining('delivery none') }]),
      });
    const image = steps.request('refused', 'elsewhere');
    await expect(image).rejects.toMatchObject({ code: 'image_not_allowed', row: { exit: 2 } });
    await expect(image).rejects.not.toMatchObject({ message: expect.stringContaining('registry.invalid') });
    expect(await world.operator.inventory.read('refused')).toBeUndefined();
  });

  it.each([
    ['a container', 'foreign'],
    ['the agent', 'copied'],
  ])('of a profile: an image of %s that is not allowed is refused when it is asked for, unnamed', async (_what, profile) => {
    const asked = world.operator.producer.launch({ version: 1, instanceId: profile, profile });
    await expect(asked).rejects.toMatchObject({
      code: 'image_not_allowed',
      row: { exit: 2, http: 403 },
      issues: [{ path: 'profile', message: 'an image of it matches nothing in images.allow' }],
    });
    await expect(asked).rejects.not.toMatchObject({ message: expect.stringContaining('registry.invalid') });
    expect(await world.operator.inventory.read(profile)).toBeUndefined();
  });

  it('that ends is finished: its exit code is in the record, told once, and it is no loss', async () => {
    const record = await steps.finished('fails', 'job', { command: ['sh', '-c', 'sleep 1; exit 7'] });
    expect(record).toMatchObject({ state: 'ready', exitCode: 7, failure: null });
    expect(await steps.events('fails', 'command.exited')).toMatchObject([{ exitCode: 7 }]);
    expect(await steps.events('fails', 'lost')).toEqual([]);
    expect(toInstance(record)).toMatchObject({ state: 'ready', exitCode: 7 });
    // Asked for again it is there as it was left, not run again.
    const pod = await steps.pod(record);
    await world.operator.producer.reconnect('fails');
    const after = await world.until(
      'fails',
      (current) => current?.run === 2 && current.stages.some(({ name, state }) => name === 'ready' && state === 'done'),
    );
    expect(after).toMatchObject({ state: 'ready', exitCode: 7, expiresAt: record.expiresAt, pod: { uid: pod?.metadata?.uid } });
    expect(await steps.events('fails', 'command.exited')).toHaveLength(1);
    await steps.removed('fails');
  });

  it('that is through before anybody could look is ready and finished', async () => {
    const record = await steps.finished('quick', 'job', { command: ['true'] });
    expect(record).toMatchObject({ state: 'ready', exitCode: 0 });
    expect(await steps.events('quick', 'ready')).toHaveLength(1);
    expect(await steps.events('quick', 'command.exited')).toMatchObject([{ exitCode: 0 }]);
    await steps.removed('quick');
  });

  it('that is finished stays for its retention, then the sweep removes it without a trace', async () => {
    const record = await steps.finished('swept', 'job', { command: ['true'] });
    const now = await world.operator.inventory.now();
    expect(record.expiresAt - now).toBeLessThanOrEqual(2000);
    // Over only when Redis and the cluster say so, whose clock is known to the second: the next pass may be the one.
    const pass = async () => {
      const { jobId } = await world.operator.producer.sweep({ version: 1, kinds: ['expired'] });
      await world.operator.producer.sweepReports(jobId, 30_000);
      return (await steps.events('swept', 'expired')).length;
    };
    await expect.poll(pass, { timeout: 20_000, interval: 500 }).toBe(1);
    await world.gone('swept');
    expect(await world.leftovers()).toEqual([]);
  });

  it('whose Pod the cluster collects after its end keeps its result', async () => {
    const record = await steps.finished('collected', 'job', { command: ['sh', '-c', 'exit 4'] });
    await world.cluster.remove('pods', record.pod?.name ?? '', { uid: record.pod?.uid ?? '' });
    await expect.poll(() => world.leftovers()).toEqual([]);
    // Another instance is lost after it, so that every look at this one is over.
    const other = await steps.launch('other', 'stays');
    await world.cluster.remove('pods', other.pod?.name ?? '', { uid: other.pod?.uid ?? '' });
    await world.until('other', (current) => current?.state === 'lost');
    expect(await world.operator.inventory.read('collected')).toMatchObject({ state: 'ready', exitCode: 4 });
    for (const id of ['collected', 'other']) await steps.removed(id);
  });

  it('whose Pod is taken away while it runs is lost', async () => {
    const record = await steps.launch('taken', 'stays');
    await world.cluster.remove('pods', record.pod?.name ?? '', { uid: record.pod?.uid ?? '' });
    const lost = await world.until('taken', (current) => current?.state === 'lost');
    expect(lost).toMatchObject({ exitCode: null, failure: { code: 'pod_disrupted' } });
    await steps.removed('taken');
  });
});

describe('C36: Redis flushed under an app', () => {
  it('that is through: a recovery brings its result back, one that runs goes on', async () => {
    const before = await steps.finished('through', 'job', { command: ['sh', '-c', 'exit 4'] });
    await steps.launch('runs on', 'stays');
    await flushAll(world);
    const report = await world.operator.recover({ dryRun: false });
    expect(Object.fromEntries(report.items.map(({ instanceId, rule, state }) => [instanceId, [rule, state]]))).toEqual({
      through: ['finished', 'ready'],
      'runs on': ['running', 'ready'],
    });
    const record = await world.ready('through');
    expect(record).toMatchObject({ app: 'job', exitCode: 4, agent: null, snapshot: before.snapshot, failure: null });
    expect(record.pod?.uid).toBe(before.pod?.uid);
    expect(await steps.events('through', 'command.exited')).toMatchObject([{ exitCode: 4 }]);
    expect(await world.ready('runs on')).toMatchObject({ app: 'stays', exitCode: null, agent: null });
    for (const id of ['through', 'runs on']) await steps.removed(id);
    expect(await world.leftovers()).toEqual([]);
  });
});
