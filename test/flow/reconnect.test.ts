import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { EffectMessage } from '../../src/effects.ts';
import type { InstanceEvent, InstanceRecord, StageRecord } from '../../src/inventory/types.ts';
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

/** Kills the agent from inside, as an OOM would; `reboot` empties the memory volume first, as a node that starts anew does. */
const killAgent = async (id: string, reboot = false) => {
  const wipe = reboot ? 'rm -rf "${WINDLASS_RUN_DIR:-/run/windlass}"/*; ' : '';
  await expect(world.exec(id, ['/bin/sh', '-c', `${wipe}kill -9 $PPID`])).rejects.toMatchObject({ code: 'exec_lost' });
};
const restarted = (id: string) => world.until(id, (record) => record?.restartCount === 1) as Promise<InstanceRecord>;
/** A ready instance stays ready meanwhile: its last stage tells that the run is over. */
const reconnected = async (id: string): Promise<InstanceRecord> => {
  await world.operator.producer.reconnect(id);
  const over = ({ name, state }: StageRecord) => name === 'ready' && state === 'done';
  return (await world.until(
    id,
    (record) => record?.state === 'ready' && record.run > 1 && record.stages.some(over),
  )) as InstanceRecord;
};

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

describe('a reconnect of a ready instance', () => {
  beforeEach(async () => {
    world = await open();
    await world.worker();
  });
  afterEach(close);

  it('finds the exact Pod as it was left: no exec, no create, the same token, no younger', async () => {
    const record = await launch('whole');
    const secrets = await world.operator.inventory.secrets(record.hash);
    const effects = recordEffects();
    const after = await reconnected('whole');
    const seen = effects.stop();
    expect(seen.filter((name) => /^kube\.(exec|create|delete|patch)|^agent\.handshake/.test(name))).toEqual([]);
    expect(after).toMatchObject({ run: 2, pod: record.pod, expiresAt: record.expiresAt, readyAt: record.readyAt, rebuilds: 0 });
    expect(await world.operator.inventory.secrets(record.hash)).toMatchObject({ agentToken: secrets.agentToken });
    expect(await events('whole', 'reconnected')).toMatchObject([{ how: 'kept', run: 2 }]);
    expect(await events('whole', 'lost')).toEqual([]);
    expect((await world.exec('whole', ['echo', 'hi'])).stdout).toBe('hi\n');
  });

  it('C51 a container that was restarted is noted without a run, and the next use sets its agent up again', async () => {
    const record = await launch('restarted');
    await killAgent('restarted');
    const noted = await restarted('restarted');
    expect(noted).toMatchObject({ state: 'ready', run: 1, agent: { state: 'idle' }, pod: { uid: record.pod?.uid } });
    expect((await world.exec('restarted', ['echo', 'again'])).stdout).toBe('again\n');
    const used = await world.operator.inventory.read('restarted');
    expect(used).toMatchObject({ state: 'ready', agent: { state: 'healthy' } });
    expect(await events('restarted', 'reconnected')).toMatchObject([{ how: 'restarted', run: 1 }]);
  });

  it('a restarted container is worked with again in the same Pod', async () => {
    const record = await launch('again', { secretEnv: { SECRET: 'kept-value' } });
    await killAgent('again');
    await restarted('again');
    const after = await reconnected('again');
    expect(after).toMatchObject({ restartCount: 1, rebuilds: 0, agent: { state: 'healthy' }, pod: { uid: record.pod?.uid } });
    expect(await events('again', 'reconnected')).toMatchObject([{ how: 'restarted', run: 2 }]);
    expect((await world.exec('again', ['/bin/sh', '-c', 'printf %s "$SECRET"'])).stdout).toBe('kept-value');
  });

  it('a Pod without its start marker (node reboot) is bootstrapped again, with its secrets', async () => {
    const request = { secretEnv: { SECRET: 'kept-value' }, prepare: 'echo x >> prepared' };
    const record = await launch('rebooted', request);
    await killAgent('rebooted', true);
    await restarted('rebooted');
    const after = await reconnected('rebooted');
    expect(after).toMatchObject({ restartCount: 1, rebuilds: 0, agent: { state: 'healthy' }, pod: { uid: record.pod?.uid } });
    const output = await world.exec('rebooted', ['/bin/sh', '-c', 'printf %s "$SECRET"; cat prepared']);
    // Prepared once: the workspace remembers.
    expect(output.stdout).toBe('kept-valuex\n');
  });

  it('that meets a loss which the watch could not write yet rebuilds in the same run; whoever is first writes it, once', async () => {
    const record = await launch('raced');
    // Held by somebody else while the Pod goes: neither the watch nor the run can write before the other may.
    const lease = await world.operator.inventory.tryLease(record.hash);
    await deletePod(record);
    await world.operator.producer.reconnect('raced');
    await lease?.release();
    const after = await world.until('raced', (current) => current?.rebuilds === 1 && current.state === 'ready');
    expect(after?.pod?.uid).not.toBe(record.pod?.uid);
    expect(await events('raced', 'lost')).toHaveLength(1);
  });
});

/** Names of the side effects of this process, finished or not. */
function recordEffects(): { stop(): string[] } {
  const names: string[] = [];
  const listener = (message: unknown) => {
    const { phase, name } = message as EffectMessage;
    if (phase === 'before') names.push(name);
  };
  subscribe('windlass:effect', listener);
  return {
    stop() {
      unsubscribe('windlass:effect', listener);
      return names;
    },
  };
}
