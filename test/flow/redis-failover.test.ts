import { randomBytes } from 'node:crypto';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { podName } from '../../src/names.ts';
import { type EmbeddedCluster, startCluster } from '../support/cluster.ts';
import { sweepReport } from '../support/recover-flow.ts';
import { startRedisCluster, startSentinelSet } from '../support/redis-topology.ts';
import { sweepsByHand } from '../support/sweeps-by-hand.ts';
import { createWorld, type World } from '../support/world.ts';

let embedded: EmbeddedCluster;
let world: World;
const stops: (() => Promise<unknown>)[] = [];

beforeAll(async () => {
  embedded = await startCluster();
});
afterAll(async () => embedded?.close());
afterEach(async () => {
  await world?.stop();
  for (const stop of stops.splice(0).reverse()) await stop();
});

/** Two worker processes on that Redis. */
async function open(redis: object): Promise<string> {
  const installation = `failover-${randomBytes(4).toString('hex')}`;
  const place = { kubeconfig: embedded.kubeconfig, namespace: 'default', image: 'node:24' };
  world = await createWorld({ ...place, config: { installation, redis, sweeps: sweepsByHand } });
  await Promise.all([world.workerProcess(), world.workerProcess()]);
  return installation;
}

const launch = (id: string) => world.operator.producer.launch({ version: 1, instanceId: id, profile: 'node' });
const named = (name: string, count: number) => Array.from({ length: count }, (_, at) => `${name} ${at}`);

/** Each is ready, with the Pod that its record names and no other. */
async function assertReady(ids: readonly string[]): Promise<void> {
  for (const id of ids) {
    const record = await world.ready(id, 90);
    expect((await world.cluster.read('pods', podName(record.hash)))?.metadata?.uid).toBe(record.pod?.uid);
  }
  expect((await world.leftovers()).length).toBe(2 * ids.length);
}

async function clear(ids: readonly string[]): Promise<void> {
  for (const id of ids) await removed(id);
  for (const id of ids) await world.gone(id, 90);
  expect(await world.leftovers()).toEqual([]);
}

/** Asks until Redis is there again, replicas that have to confirm included: what is refused meanwhile is asked for again. */
const asks = (ask: () => Promise<unknown>) =>
  expect
    .poll(
      () =>
        ask().then(
          () => true,
          // Not confirmed is not undone: the next time it may be through.
          (error) => error.code === 'instance_gone' || error.code,
        ),
      { timeout: 60_000, interval: 200 },
    )
    .toBe(true);
const accepted = (id: string) => asks(() => launch(id));
const removed = (id: string) => asks(() => world.operator.producer.teardown({ version: 1, instanceId: id }));

describe('workers resume by themselves', () => {
  it('C71 C74 when Sentinel fails over: with waitReplicas 1 nothing that was accepted is lost or made twice', async () => {
    const set = await startSentinelSet();
    stops.push(() => set.stop());
    await open({ url: set.url, waitReplicas: 1 });
    const done = named('done', 2);
    for (const id of done) await launch(id);
    await assertReady(done);
    const before = await Promise.all(done.map((id) => world.ready(id)));
    const active = named('active', 4);
    await Promise.all(active.map(launch));
    await set.master.stop();
    await expect.poll(() => set.masterPort(), { timeout: 30_000 }).not.toBe(set.master.port);
    await accepted('after');
    await assertReady([...done, ...active, 'after']);
    for (const record of before)
      expect(await world.ready(record.instanceId)).toMatchObject({
        generation: record.generation,
        pod: { uid: record.pod?.uid },
      });
    await clear([...done, ...active, 'after']);
  }, 240_000);

  it('C71 C74 when a replica takes over that lacks the last writes: what they said is lost, sweeps and the callers set it right', async () => {
    const set = await startSentinelSet();
    stops.push(() => set.stop());
    await open({ url: set.url });
    for (const id of ['kept', 'torn']) await launch(id);
    const [kept, torn] = [await world.ready('kept'), await world.ready('torn')];
    await set.cutReplicas();
    await launch('forgotten');
    const { hash } = await world.ready('forgotten');
    await world.operator.producer.teardown({ version: 1, instanceId: 'torn' });
    await world.gone('torn');
    await set.master.stop();
    await expect.poll(() => set.masterPort(), { timeout: 30_000 }).not.toBe(set.master.port);
    await accepted('after');
    await world.ready('after', 90);

    // Both answers were given, and both are lost: one instance has no record, one record has no instance.
    expect(await world.operator.inventory.read('forgotten')).toBeUndefined();
    expect(await world.cluster.read('pods', podName(hash))).toBeDefined();
    expect(await world.operator.inventory.read('torn')).toMatchObject({ generation: torn.generation });
    for (const [kind, did] of [
      ['orphans', { deleted: 2 }],
      ['ghosts', { acted: 1 }],
    ] as const) {
      expect(await sweepReport(world, kind)).toMatchObject({ deleted: 0, acted: 0 });
      expect(await sweepReport(world, kind)).toMatchObject(did);
    }
    await world.gone('torn', 90);
    expect(await world.operator.inventory.read('kept')).toMatchObject({ state: 'ready', pod: { uid: kept.pod?.uid } });
    await expect.poll(() => world.leftovers(), { timeout: 30_000 }).toHaveLength(4);
    // Who asks again, since nobody ever told him that it failed, gets one of its own.
    await launch('forgotten');
    await assertReady(['kept', 'after', 'forgotten']);
    await clear(['kept', 'after', 'forgotten']);
  }, 240_000);

  it('C71 when the primary of a three-primary Cluster that has the inventory is killed and comes back', async () => {
    const cluster = await startRedisCluster();
    stops.push(() => cluster.stop());
    const installation = await open({ url: cluster.url });
    const active = named('active', 4);
    await Promise.all(active.map(launch));
    for (const key of ['inventory', 'launch']) {
      await cluster.restart(`{windlass:${installation}:${key}}`, async () => {
        if (key === 'inventory') await expect(launch('refused')).rejects.toMatchObject({ code: 'redis_unavailable' });
      });
      await accepted(`after ${key}`);
    }
    const all = [...active, 'after inventory', 'after launch'];
    await assertReady(all);
    await clear(all);
  }, 240_000);
});
