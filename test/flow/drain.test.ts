import { randomBytes } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { withPlainQueue } from '../support/chaos/plain-queue.ts';
import { standby, type Victim } from '../support/chaos/victim.ts';
import { type EmbeddedCluster, startCluster } from '../support/cluster.ts';
import { createWorld, type World } from '../support/world.ts';

let embedded: EmbeddedCluster;
let world: World;
let victim: Victim;
const graceSeconds = 10;

beforeAll(async () => {
  embedded = await startCluster();
});
afterAll(async () => embedded?.close());
beforeEach(async () => {
  const installation = `drain-${randomBytes(4).toString('hex')}`;
  const config = { installation, worker: { drainSeconds: graceSeconds } };
  world = await createWorld({ kubeconfig: embedded.kubeconfig, namespace: 'default', image: 'node:24', config });
  victim = await standby(world.loaded, 'launch,teardown');
  await victim.start();
});
afterEach(async () => {
  await victim?.end();
  await world?.stop();
});

const request = (id: string, more: object = {}) => ({ version: 1, instanceId: id, profile: 'node', ...more });

const exitCode = async () => (await victim.dead)[0];

describe('a worker told to stop', () => {
  it.each([
    'before kube.create.persistentvolumeclaims#1',
    'before kube.create.pods#1',
    'before kube.exec#1',
    'before agent.handshake#1',
  ])(
    'C23 %s hands its job back at the checkpoint, exits 0, burns no attempt; another goes on with the same objects',
    async (point) => {
      await victim.at(point, 'term');
      const { generation } = await world.operator.producer.launch(request('drained'));
      expect(await exitCode()).toBe(0);
      const left = await world.operator.inventory.read('drained');
      expect(left).toMatchObject({ state: 'launching', attemptsLeft: 3, crashes: 0, failure: null });
      await withPlainQueue(world, 'launch', async (queue) => {
        const job = await queue.getJob(`launch-${left?.hash}-${generation}-1`);
        // Delayed when it was to wait for its Pod by then.
        expect(['waiting', 'prioritized', 'delayed']).toContain(await job?.getState());
        expect(job?.attemptsMade).toBe(0);
      });
      await world.worker();
      const record = await world.ready('drained');
      if (left?.pod) expect(record.pod?.uid).toBe(left.pod.uid);
      expect((await world.leftovers()).length).toBe(2);
      await world.operator.producer.teardown({ version: 1, instanceId: 'drained' });
      await world.gone('drained');
      expect(await world.leftovers()).toEqual([]);
    },
  );

  it('C93 leaves running instances alone, and its successor knows them', async () => {
    await world.operator.producer.launch(request('kept'));
    const before = await world.ready('kept');
    victim.process.kill('SIGTERM');
    expect(await exitCode()).toBe(0);
    await world.worker();
    expect(await world.ready('kept')).toMatchObject({ fence: before.fence, pod: before.pod });
    expect((await world.exec('kept', ['echo', 'alive'])).stdout).toBe('alive\n');
    await world.operator.producer.teardown({ version: 1, instanceId: 'kept' });
    await world.gone('kept');
  });

  it('exits 0 while Redis does not answer, before Redis is back', async () => {
    await world.operator.producer.launch(request('alone', { prepare: 'sleep 30' }));
    await world.until('alone', (record) => record?.pod !== null);
    process.kill(world.redis.pid, 'SIGSTOP');
    try {
      victim.process.kill('SIGTERM');
      // It does not wait for an answer: Redis goes on only when it is gone.
      expect(await exitCode()).toBe(0);
    } finally {
      process.kill(world.redis.pid, 'SIGCONT');
    }
    await world.operator.producer.teardown({ version: 1, instanceId: 'alone' });
    await world.worker();
    await world.gone('alone');
    expect(await world.leftovers()).toEqual([]);
  });
});
