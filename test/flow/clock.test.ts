import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type EmbeddedCluster, startCluster } from '../support/cluster.ts';
import { createWorld, type World } from '../support/world.ts';

let embedded: EmbeddedCluster;
let world: World;

beforeAll(async () => {
  embedded = await startCluster();
  const limits = { perOwner: 1 };
  world = await createWorld({ kubeconfig: embedded.kubeconfig, namespace: 'default', image: 'node:24', config: { limits } });
  const preload = join(import.meta.dirname, '../support/clock-ahead.mjs');
  await world.workerProcess({ NODE_OPTIONS: `--import ${preload}`, CLOCK_AHEAD_MS: String(2 * 3_600_000) });
});
afterAll(async () => {
  await world?.stop();
  await embedded?.close();
});

it('I28 a worker whose clock is two hours ahead takes no launch for late: it is ready, and the next one keeps to the cap', async () => {
  const { producer, inventory } = world.operator;
  await producer.launch({ version: 1, instanceId: 'first', profile: 'scratch' });
  await world.ready('first');
  const second = await producer.launch({ version: 1, instanceId: 'second', profile: 'scratch' });
  const { launch } = await producer.queues();
  await expect.poll(() => launch.getJobState(second.jobId), { timeout: 20_000 }).toBe('delayed');
  expect((await inventory.read('second'))?.state).toBe('requested');

  await producer.teardown({ version: 1, instanceId: 'first' });
  await world.ready('second');
  await producer.teardown({ version: 1, instanceId: 'second' });
  await world.gone('second');
  expect(await world.leftovers()).toEqual([]);
});
