import { randomBytes } from 'node:crypto';
import { Worker } from 'bullmq';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { builtSweeps } from '../../src/jobs/catalog.ts';
import { podName } from '../../src/names.ts';
import { withPlainQueue } from '../support/chaos/plain-queue.ts';
import { standby, type Victim } from '../support/chaos/victim.ts';
import { type EmbeddedCluster, startCluster } from '../support/cluster.ts';
import { atOnce } from '../support/sweeps-by-hand.ts';
import { createWorld, type World } from '../support/world.ts';

let embedded: EmbeddedCluster;
let world: World;
let victim: Victim;
let installation: string;

beforeAll(async () => {
  embedded = await startCluster();
});
afterAll(async () => embedded?.close());
beforeEach(async () => {
  installation = `stuck-${randomBytes(4).toString('hex')}`;
  const config = { installation, sweeps: Object.fromEntries(builtSweeps.map((kind) => [kind, atOnce])) };
  world = await createWorld({ kubeconfig: embedded.kubeconfig, namespace: 'default', image: 'node:24', config });
  victim = await standby(world.loaded, 'launch,teardown');
  await victim.start();
});
afterEach(async () => {
  await victim?.end();
  await world?.stop();
});

const request = (id: string, more: object = {}) => ({ version: 1, instanceId: id, profile: 'node', ...more });

/** Two passes: the second acts on what the first has seen. Answers what the second did about this instance. */
async function sweepTwice(id: string) {
  const { producer } = world.operator;
  const pass = async () => {
    const { jobId } = await producer.sweep({ version: 1, kinds: ['stuck'] });
    return (await producer.sweepReports(jobId, 30_000)).reports[0]?.entries.find((entry) => entry.name === id);
  };
  await pass();
  return pass();
}

/** The lease of a killed worker runs out by itself; until then a sweep sees somebody at work. */
const leaseEnded = (id: string) => {
  const { leaseHolder, hashOf } = world.operator.inventory;
  return expect.poll(() => leaseHolder(hashOf(id)), { timeout: 20_000 }).toBeUndefined();
};

/** As another client does whose worker allows no stall at all: the queue gives up what a dead worker left; the next worker fails it. */
async function failStalled(jobId: string): Promise<void> {
  const prefix = `{windlass:${installation}:launch}`;
  const strict = new Worker('launch', null, {
    connection: { url: world.redis.url },
    prefix,
    autorun: false,
    maxStalledCount: 0,
    stalledInterval: 200,
  });
  try {
    await strict.startStalledCheckTimer();
    await withPlainQueue(world, 'launch', (queue) =>
      expect.poll(async () => (await queue.getJob(jobId))?.deferredFailure, { timeout: 30_000 }).toContain('stalled'),
    );
  } finally {
    await strict.close();
  }
}

async function clear(id: string): Promise<void> {
  await world.operator.producer.teardown({ version: 1, instanceId: id });
  await world.gone(id);
  expect(await world.leftovers()).toEqual([]);
}

describe('a job that nobody will do any more', () => {
  it('C07 that stalled too often is added again as a new run, which ends it with the same Pod', async () => {
    await victim.at('after kube.create.pods#1', 'kill');
    const { jobId, generation } = await world.operator.producer.launch(request('stalled'));
    await victim.dead;
    const { hash } = (await world.operator.inventory.read('stalled')) ?? { hash: '' };
    const made = await world.cluster.read('pods', podName(hash));
    await failStalled(jobId);
    await leaseEnded('stalled');

    await world.worker();
    await withPlainQueue(world, 'launch', (queue) =>
      expect.poll(() => queue.getJobState(jobId), { timeout: 30_000 }).toBe('failed'),
    );
    expect(await sweepTwice('stalled')).toMatchObject({ rule: 'job_ended', action: 'done', evidence: { state: 'launching' } });
    const record = await world.ready('stalled');
    expect(record).toMatchObject({ generation, run: 2, pod: { uid: made?.metadata?.uid } });
    expect((await world.leftovers()).length).toBe(2);
    await clear('stalled');
  }, 120_000);

  it.each(['removed', 'obliterated'] as const)(
    'I15 that was %s in the middle of a rollback is added again, and the error that started the rollback survives',
    async (how) => {
      await victim.at('before kube.delete.pods#1', 'kill');
      const { jobId } = await world.operator.producer.launch(request(how, { prepare: 'echo said this; exit 9' }));
      await victim.dead;
      const before = await world.operator.inventory.read(how);
      expect(before).toMatchObject({ state: 'rolling_back', failure: { code: 'prepare_failed' } });
      await withPlainQueue(world, 'launch', async (queue) => {
        if (how === 'obliterated') return queue.obliterate({ force: true });
        // The lock of the killed worker keeps it until it stalls.
        await expect.poll(() => queue.remove(jobId), { timeout: 20_000 }).toBe(1);
      });
      await leaseEnded(how);

      await world.worker();
      expect(await sweepTwice(how)).toMatchObject({
        rule: 'job_lost',
        action: 'done',
        evidence: { state: 'rolling_back', jobId },
      });
      const record = await world.until(how, (current) => current?.state === 'failed');
      expect(record?.failure).toEqual(before?.failure);
      expect(await world.leftovers()).toEqual([]);
      await clear(how);
    },
    120_000,
  );
});
