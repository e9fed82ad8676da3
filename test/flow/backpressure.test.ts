import { afterAll, beforeAll, expect, it } from 'vitest';
import { withPlainQueue } from '../support/chaos/plain-queue.ts';
import { type EmbeddedCluster, startCluster } from '../support/cluster.ts';
import { askRedis } from '../support/redis-topology.ts';
import { createWorld, type World } from '../support/world.ts';

let embedded: EmbeddedCluster;
let world: World;

beforeAll(async () => {
  embedded = await startCluster();
  world = await createWorld({ kubeconfig: embedded.kubeconfig, namespace: 'default', image: 'node:24' });
});
afterAll(async () => {
  await world?.stop();
  await embedded?.close();
});

const launch = (instanceId: string, more: object = {}) =>
  world.operator.producer.launch({ version: 1, instanceId, profile: 'scratch', ...more });

it('C73 while Redis is nearly full a new launch waits or fails fast, a teardown goes on; with room again it starts, no attempt burned', async () => {
  const first = await world.worker();
  await launch('before');
  await world.ready('before');
  await first.close();
  // Ten per cent of that are more than connections and jobs need meanwhile.
  await askRedis(world.redis.port, (client) => client.setrange('ballast', 40_000_000, 'x'));
  const { used } = await world.operator.inventory.facts();
  await askRedis(world.redis.port, (client) => client.config('SET', 'maxmemory', Math.round(used * 1.1)));
  // A worker looks before it takes its first job.
  await world.worker();
  const { jobId } = await launch('held back');
  await withPlainQueue(world, 'launch', (queue) =>
    expect.poll(() => queue.getJobState(jobId), { timeout: 30_000 }).toBe('delayed'),
  );
  expect(await world.operator.inventory.read('held back')).toMatchObject({ state: 'requested', pod: null });
  await launch('in a hurry', { failFast: true });
  const refused = await world.until('in a hurry', (record) => record?.state === 'failed');
  expect(refused?.failure?.code).toBe('throttled');
  await world.operator.producer.teardown({ version: 1, instanceId: 'before' });
  await world.gone('before');

  await askRedis(world.redis.port, (client) => client.config('SET', 'maxmemory', 0));
  expect(await world.ready('held back')).toMatchObject({ attemptsLeft: 3, failure: null, run: 1 });
  for (const instanceId of ['held back', 'in a hurry']) {
    await world.operator.producer.teardown({ version: 1, instanceId });
    await world.gone(instanceId);
  }
  expect(await world.leftovers()).toEqual([]);
}, 150_000);
