import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { InstanceEvent, InstanceRecord } from '../../src/inventory/types.ts';
import { createClusters } from '../../src/kubernetes/clusters.ts';
import { type EmbeddedCluster, startCluster } from '../support/cluster.ts';
import { createWorld, type World, type WorldOptions } from '../support/world.ts';

let embedded: EmbeddedCluster;
beforeAll(async () => {
  embedded = await startCluster();
});
afterAll(async () => embedded?.close());

let count = 0;
const open = (config: Record<string, unknown> = {}, more: Partial<WorldOptions> = {}) =>
  createWorld({
    kubeconfig: embedded.kubeconfig,
    namespace: 'default',
    image: 'node:24',
    config: { installation: `reconnect-${count++}`, ...config },
    ...more,
  });

let world: World;
const silent = { debug: () => {}, info: () => {}, warn: () => {} };
const launch = async (id: string, more: object = {}): Promise<InstanceRecord> => {
  await world.operator.producer.launch({ version: 1, instanceId: id, profile: 'node', ...more });
  return world.ready(id);
};
const events = async (id: string, type?: string): Promise<InstanceEvent[]> => {
  const all = await world.operator.inventory.events(id, 0, 500);
  return all.filter((event) => type === undefined || event.type === type);
};
const deletePod = (record: InstanceRecord, graceSeconds?: number) =>
  world.cluster.remove('pods', record.pod?.name ?? '', {
    uid: record.pod?.uid ?? '',
    ...(graceSeconds === undefined ? {} : { graceSeconds }),
  });
/** The embedded cluster ends quicker without Pods, and a test must not see those of the one before. */
const close = async () => {
  await world?.stop();
  const cluster = createClusters(world.loaded.config.clusters, {
    installation: world.loaded.config.installation,
    dir: '/',
    log: silent,
  }).get('default');
  const selector = `windlass.dev/installation=${world.loaded.config.installation}`;
  const podsLeft = async () => {
    const left = [];
    for await (const page of cluster.listMetadata('pods', selector)) left.push(...page.items);
    return left;
  };
  for (const { name = '', uid = '' } of await podsLeft()) await cluster.remove('pods', name, { uid, graceSeconds: 0 });
  await expect.poll(podsLeft).toEqual([]);
  await cluster.close();
};
const lost = async (id: string) => (await world.until(id, (record) => record?.state === 'lost')) as InstanceRecord;

describe('an instance whose Pod is lost', () => {
  beforeEach(async () => {
    world = await open();
    await world.worker();
  });
  afterEach(close);

  it('C50 is lost within a second of its Pod being deleted, by exactly one of two workers, with evidence', async () => {
    await world.worker();
    const record = await launch('deleted');
    await deletePod(record);
    const deletedAt = Date.now();
    const now = await lost('deleted');
    expect(Date.now() - deletedAt).toBeLessThan(1500);
    expect(now.pod?.uid).toBe(record.pod?.uid);
    expect(now.failure).toMatchObject({ code: 'pod_disrupted', stage: 'ready', attemptsLeft: 0 });
    // The other worker has seen it as well by the time that the next instance is through.
    await launch('after');
    const seen = await events('deleted', 'lost');
    expect(seen).toHaveLength(1);
    expect(Date.parse(seen[0]?.at ?? '') - deletedAt).toBeLessThan(1000);
    expect(seen[0]?.evidence).toMatchObject({ node: record.pod?.node });
  });

  it('is built again on its claim with its data when it is launched again, from the recorded recipe and secrets', async () => {
    const request = { secretEnv: { SECRET: 'kept-value' }, env: { PLAIN: 'plain' } };
    const record = await launch('rebuilt', request);
    await world.exec('rebuilt', ['/bin/sh', '-c', 'echo data > file']);
    await deletePod(record);
    await lost('rebuilt');
    const accepted = await world.operator.producer.launch({ version: 1, instanceId: 'rebuilt', profile: 'node', ...request });
    expect(accepted).toMatchObject({ generation: record.generation, deduplicated: false });
    const after = await world.ready('rebuilt');
    expect(after.pod?.uid).not.toBe(record.pod?.uid);
    expect(after.workspace?.claimUid).toBe(record.workspace?.claimUid);
    expect(after).toMatchObject({ run: 2, rebuilds: 1, restartCount: 0, expiresAt: record.expiresAt, snapshot: record.snapshot });
    const output = await world.exec('rebuilt', ['/bin/sh', '-c', 'cat file; printf %s "$SECRET$PLAIN"']);
    expect(output).toMatchObject({ exitCode: 0, stdout: 'data\nkept-valueplain' });
    expect(await events('rebuilt', 'reconnected')).toMatchObject([{ how: 'rebuilt', run: 2 }]);
    await world.operator.producer.teardown({ version: 1, instanceId: 'rebuilt' });
    await world.gone('rebuilt');
    expect(await world.leftovers()).toEqual([]);
  });

  it('is built again by a reconnect, which needs no secrets to be sent again', async () => {
    const record = await launch('reconnected', { secretEnv: { SECRET: 'kept-value' } });
    await deletePod(record);
    await lost('reconnected');
    await world.operator.producer.reconnect('reconnected');
    expect((await world.ready('reconnected')).rebuilds).toBe(1);
    expect((await world.exec('reconnected', ['/bin/sh', '-c', 'printf %s "$SECRET"'])).stdout).toBe('kept-value');
  });

  it('is built again no more often than recovery.maxRebuilds says; then its claim stays, and can be kept for a new launch', async () => {
    let record = await launch('often');
    await deletePod(record);
    await lost('often');
    await world.operator.producer.reconnect('often');
    record = await world.ready('often');
    await deletePod(record);
    await lost('often');
    await world.operator.producer.reconnect('often');
    const ended = await world.until('often', (current) => current?.state === 'lost' && current.failure?.code === 'unrecoverable');
    expect(ended?.failure).toMatchObject({ stage: 'pod', attemptsLeft: 0, evidence: { rebuilds: 1, maxRebuilds: 1 } });
    await expect.poll(() => world.leftovers()).toEqual([`persistentvolumeclaims/${record.workspace?.claimName}`]);
    await world.operator.producer.teardown({ version: 1, instanceId: 'often', keepWorkspace: true });
    await world.until('often', (current) => current?.state === 'suspended');
    expect((await launch('often')).workspace?.claimUid).toBe(record.workspace?.claimUid);
  });

  it('is unrecoverable when its workspace was an empty_dir, and nothing is made for it', async () => {
    const record = await launch('scratch', { profile: 'scratch' });
    await deletePod(record);
    await lost('scratch');
    await world.operator.producer.reconnect('scratch');
    const ended = await world.until(
      'scratch',
      (current) => current?.state === 'lost' && current.failure?.code === 'unrecoverable',
    );
    expect(ended?.failure?.message).toContain('empty_dir');
    await expect.poll(() => world.leftovers()).toEqual([]);
  });

  it('is unrecoverable when its claim is gone too: no empty workspace takes its place', async () => {
    const record = await launch('claimless');
    await deletePod(record, 1);
    await lost('claimless');
    await world.cluster.remove('persistentvolumeclaims', record.workspace?.claimName ?? '', {
      uid: record.workspace?.claimUid ?? '',
    });
    await expect.poll(() => world.leftovers()).toEqual([]);
    await world.operator.producer.reconnect('claimless');
    const ended = await world.until(
      'claimless',
      (current) => current?.state === 'lost' && current.failure?.code === 'unrecoverable',
    );
    expect(ended?.workspace?.claimUid).toBe(record.workspace?.claimUid);
    expect(await world.leftovers()).toEqual([]);
  });
});
