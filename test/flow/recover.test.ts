import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { keys } from '../../src/kubernetes/ownership.ts';
import { epochName, podName } from '../../src/names.ts';
import { type EmbeddedCluster, startCluster } from '../support/cluster.ts';
import { flushAll, recoverFlow, sweepReport } from '../support/recover-flow.ts';
import { broken, recoverMany } from '../support/recover-many.ts';
import { sweepsByHand } from '../support/sweeps-by-hand.ts';
import { createWorld, type World } from '../support/world.ts';
import { inProcess } from '../unit/cli/run.ts';

let embedded: EmbeddedCluster;
beforeAll(async () => {
  embedded = await startCluster();
});
afterAll(async () => embedded?.close());

const open = (installation: string, more: object = {}) =>
  createWorld({
    kubeconfig: embedded.kubeconfig,
    namespace: 'default',
    image: 'node:24',
    config: { installation, sweeps: sweepsByHand, ...more },
  });

describe('C36: Redis flushed under live instances', () => {
  let world: World;
  beforeAll(async () => {
    world = await open('flushed');
    await world.worker();
  });
  afterAll(async () => world?.stop());

  it('deletes nothing, and a recovery brings every record back without touching a Pod', async () => {
    await recoverFlow(world, 5);
  }, 180_000);
});

describe('C36: Redis flushed under load', () => {
  it('loses no record, Pod or claim; launches go on, and removals that were under way are finished', async () => {
    const figures = await recoverMany(12, async ({ operator }) => {
      const report = await operator.recover({ dryRun: false });
      expect(report.items.filter((item) => item.outcome === 'failed')).toEqual([]);
    });
    expect(broken(figures), JSON.stringify(figures)).toEqual([]);
  });
});

describe('C36: Redis flushed during a teardown', () => {
  it('whose cleanup script still runs: the instance is not revived, the teardown is finished', async () => {
    const world = await open('cleaning');
    try {
      await world.worker();
      await world.operator.producer.launch({ version: 1, instanceId: 'a', profile: 'node' });
      const { hash } = await world.ready('a');
      await world.operator.producer.teardown({ version: 1, instanceId: 'a', cleanup: 'touch /tmp/cleaning; sleep 50' });
      const mark = async () => (await world.cluster.read('pods', podName(hash)))?.metadata?.annotations?.[keys.removing];
      await expect.poll(mark, { timeout: 30_000 }).toBe('remove');
      await flushAll(world);
      const pod = await world.cluster.read('pods', podName(hash));
      expect(pod?.metadata?.deletionTimestamp).toBeUndefined();
      // The worker that runs the script learns from its next renewal that it lost the lease.
      const report = async () => (await world.operator.recover({ dryRun: false })).items;
      await expect.poll(report, { timeout: 30_000 }).toMatchObject([{ outcome: 'recovered', rule: 'teardown_begun' }]);
      await world.gone('a');
      expect(await world.leftovers()).toEqual([]);
    } finally {
      await world.stop();
    }
  });
});

describe('with recovery.onLost: rebuild', () => {
  it('the first worker that notices brings the records back by itself; what was never set up is removed', async () => {
    const world = await open('rebuilt', { recovery: { onLost: 'rebuild' } });
    try {
      const first = await world.worker();
      const launch = (instanceId: string, more: object = {}) =>
        world.operator.producer.launch({ version: 1, instanceId, profile: 'node', ...more });
      await launch('a');
      const before = await world.ready('a');
      await launch('under way', { prepare: 'sleep 600' });
      await world.until('under way', (record) => record?.stages.some((stage) => stage.wait === 'preparing') ?? false);
      await first.close();
      await flushAll(world);
      await world.worker();
      const after = await world.ready('a');
      expect(after.pod).toEqual(before.pod);
      expect((await world.exec('a', ['echo', 'alive'])).stdout).toBe('alive\n');
      await world.gone('under way');
      await world.operator.producer.teardown({ version: 1, instanceId: 'a' });
      await world.gone('a');
      expect(await world.leftovers()).toEqual([]);
    } finally {
      await world.stop();
    }
  }, 120_000);
});

describe('an inventory that does not belong to the cluster', () => {
  let world: World;
  let raw: Redis;
  const epochKey = '{windlass:epochs:inventory}:shelf:epoch:default';
  const epochMap = epochName('epochs');
  const stopped = async () => (await sweepReport(world, 'orphans'))?.stopped?.code;
  beforeAll(async () => {
    world = await open('epochs');
    await world.worker();
    raw = new Redis(world.redis.url);
  });
  afterAll(async () => {
    raw?.disconnect();
    await world?.stop();
  });

  it('an old backup of Redis deletes nothing until a recovery; then sweeps go on', async () => {
    expect(await stopped()).toBeUndefined();
    const backup = (await raw.get(epochKey)) as string;
    expect(await stopped()).toBeUndefined();
    await raw.set(epochKey, backup);
    expect(await stopped()).toBe('inventory_lost');
    expect(await world.operator.recover({ dryRun: true })).toMatchObject({ failed: 0 });
    expect(await stopped()).toBe('inventory_lost');
    expect(await world.operator.recover({ dryRun: false })).toMatchObject({ failed: 0 });
    expect(await stopped()).toBeUndefined();
  });

  it('another cluster behind the same name is not judged and not recovered from', async () => {
    const map = await world.cluster.read('configmaps', epochMap);
    await world.cluster.remove('configmaps', epochMap, { uid: map?.metadata?.uid ?? '' });
    expect(await stopped()).toBe('inventory_lost');
    const report = await world.operator.recover({ dryRun: false });
    expect(report).toMatchObject({
      recovered: 0,
      failed: 1,
      items: [{ rule: 'inventory_lost', message: expect.stringContaining('Another cluster') }],
    });
    expect(await world.cluster.read('configmaps', epochMap)).toBeUndefined();
  });
});

describe('the command line', () => {
  let world: World;
  const windlass = (...args: string[]) => inProcess(['--json', '--config', world.loaded.file, ...args]);
  beforeAll(async () => {
    world = await open('verbs');
    await world.worker();
    await world.operator.producer.launch({ version: 1, instanceId: 'a', profile: 'node', lifetime: { maxSeconds: 60 } });
    await world.ready('a');
  });
  afterAll(async () => world?.stop());

  it('extend moves the end and says when the limits are met; nonsense is refused', async () => {
    const before = (await world.operator.inventory.read('a'))?.expiresAt ?? 0;
    const extended = await windlass('extend', 'a', '--by', '1h30m');
    expect(extended.json()).toEqual({
      schema: 'windlass/v1',
      instanceId: 'a',
      expiresAt: new Date(before + 5_400_000).toISOString(),
      clamped: false,
    });
    expect((await windlass('extend', 'a', '--by', '300d')).json()).toMatchObject({ clamped: true });
    for (const by of ['', '2', 'h', '1x', '-1h', '0s']) {
      const answer = await windlass('extend', 'a', `--by=${by}`);
      if (by === '2') expect(answer.exitCode).toBe(0);
      else expect([by, answer.exitCode]).toEqual([by, 2]);
    }
    expect(await windlass('extend', 'nobody', '--by', '1h')).toMatchObject({ exitCode: 3 });
  });

  it('sweep all --wait reports every kind, and sweeps shows the last ones and one whole', async () => {
    const { reports } = (await windlass('sweep', 'all', '--wait', '--dry-run')).json() as unknown as {
      reports: { sweep: string; id: string }[];
    };
    expect(reports.map((report) => report.sweep)).toEqual(['orphans', 'ghosts', 'expired', 'config-maps', 'stuck']);
    const last = (await windlass('sweeps')).json() as unknown as { items: { id: string }[] };
    expect(last.items.length).toBeGreaterThanOrEqual(5);
    const whole = (await windlass('sweeps', reports[0]?.id ?? '')).json() as unknown as { items: { sweep: string }[] };
    expect(whole.items.map((report) => report.sweep).sort()).toEqual([...reports.map((report) => report.sweep)].sort());
    expect(await windlass('sweeps', 'never')).toMatchObject({ exitCode: 3 });
  });

  it('recover says what it would do, does it, and the record says so', async () => {
    await flushAll(world);
    expect((await windlass('recover', '--dry-run')).json()).toMatchObject({ recovered: 1, skipped: 0, failed: 0, dryRun: true });
    expect(await windlass('get', 'a')).toMatchObject({ exitCode: 3 });
    const recovered = await windlass('recover');
    expect(recovered).toMatchObject({ exitCode: 0 });
    expect(recovered.json()).toMatchObject({ recovered: 1, skipped: 0, failed: 0, items: [{ instanceId: 'a', state: 'ready' }] });
    expect((await windlass('get', 'a')).json()).toMatchObject({
      state: 'ready',
      recovered: true,
      missing: ['env', 'prepare', 'secretEnv'],
    });
    expect((await windlass('exec', 'a', '--', 'echo', 'alive')).exitCode).toBe(0);
  });
});
