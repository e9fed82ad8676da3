import { Redis } from 'ioredis';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { inventoryTag } from '../../src/inventory/keys.ts';
import type { LocalCluster } from '../../src/local-cluster/types.ts';
import { standby } from '../support/chaos/victim.ts';
import { lightProfiles, startLightCluster } from '../support/light-cluster.ts';
import { randomInt } from '../support/random.ts';
import { sweepsByHand } from '../support/sweeps-by-hand.ts';
import { createWorld, type World } from '../support/world.ts';

const owners = ['ann', 'bob', 'cem', 'dan', 'eve'];
const perOwner = 20;
const rounds = 5;
const perRound = 20;
const all = owners.length * perOwner;
const steps = ['redis.begin', 'redis.write', 'kube.create.persistentvolumeclaims', 'kube.create.pods'];

let light: LocalCluster;
let world: World;
let raw: Redis;
beforeAll(async () => {
  light = await startLightCluster();
  const limits = { perOwner, maxInstances: all, launching: all };
  const config = { installation: 'kills', profiles: lightProfiles, sweeps: sweepsByHand, limits };
  world = await createWorld({ kubeconfig: light.kubeconfig, namespace: 'default', image: 'node:24', config });
  raw = new Redis(world.redis.url);
});
afterAll(async () => {
  raw?.disconnect();
  await world?.stop();
  await light?.close();
});

const launch = (instanceId: string, owner: string) =>
  world.operator.producer.launch({ version: 1, instanceId, owner, profile: 'node' });
const teardown = (instanceId: string) => world.operator.producer.teardown({ version: 1, instanceId });
const counted = async (set: string) => raw.scard(`${inventoryTag('windlass', 'kills')}:${set}`);
const live = ['launching', 'ready', 'lost', 'removing', 'rolling_back', 'cleanup_pending'] as const;

/** What the caps count, against the records: nobody works meanwhile. */
async function assertCounted(): Promise<void> {
  const { items } = await world.operator.inventory.listFields(['owner', 'state'], { states: live, limit: 500 });
  const found = Object.fromEntries(owners.map((owner) => [owner, items.filter((record) => record.owner === owner).length]));
  const counts = await Promise.all(owners.map(async (owner) => [owner, await counted(`live-owner:${owner}`)] as const));
  expect(Object.fromEntries(counts)).toEqual(found);
  expect([await counted('live'), await counted('live-cluster:default')]).toEqual([items.length, items.length]);
  expect(await counted('launching')).toBe(items.filter(({ state }) => state === 'launching').length);
}

/** Sleeping until a place of this cap is free. */
const waitsFor = (key: string) =>
  expect.poll(() => raw.zcard(`${inventoryTag('windlass', 'kills')}:waiters:${key}`), { timeout: 20_000 }).toBe(1);

it('C13 100 launches killed at random steps take no more and no fewer places than they hold, and leave none taken', async () => {
  const random = randomInt(13);
  const ids = Array.from({ length: all }, (_, at) => `killed ${at}`);
  let next = standby(world.loaded, 'launch');
  for (let round = 0; round < rounds; round++) {
    const victim = await next;
    const point = `${random(2) === 0 ? 'before' : 'after'} ${steps[random(steps.length)]}#${3 + random(perRound - 3)}`;
    await victim.at(point, 'kill');
    next = standby(world.loaded, 'launch');
    const started = ids.slice(round * perRound, (round + 1) * perRound);
    await Promise.all(started.map((id, at) => launch(id, owners[at % owners.length] as string)));
    victim.start().catch(() => undefined);
    await victim.dead;
    await assertCounted();
  }
  await (await next).end();
  await world.worker();
  // Exactly as many as the caps let in, whatever they went through: a place lost would keep the last ones out.
  await Promise.all(ids.map((id) => world.ready(id)));
  await assertCounted();
  expect(await counted('live')).toBe(all);
  expect((await world.leftovers()).length).toBe(2 * all);
  // A place too many would let these in.
  await launch('one more', 'ann');
  await waitsFor('owner:ann');
  await launch('of another', 'fay');
  await waitsFor('global');

  for (const id of ids) await teardown(id);
  for (const id of ['one more', 'of another']) await world.ready(id);
  await Promise.all(ids.map((id) => world.gone(id)));
  for (const id of ['one more', 'of another']) await teardown(id);
  for (const id of ['one more', 'of another']) await world.gone(id);
  await assertCounted();
  expect(await counted('live')).toBe(0);
  expect(await world.leftovers()).toEqual([]);
});
