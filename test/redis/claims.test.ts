import { DelayedError, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { startWakeups } from '../../src/consumers/wakeups.ts';
import type { JobRef } from '../../src/inventory/port.ts';
import { createLogger } from '../../src/log.ts';
import { closeQueues, openQueues, type Queues, queuePrefix } from '../../src/producers/queue.ts';
import { useWorld } from './inventory-support.ts';

const world = useWorld();
const hour = 3_600_000;
const job: JobRef = { queue: 'launch', jobId: 'launch-aa-10-1' };
let connection: Redis;
let queues: Queues;

beforeAll(() => {
  connection = new Redis(world.redis.url, { maxRetriesPerRequest: null });
});
beforeEach(() => {
  queues = openQueues(connection, 'windlass', 'test');
});
afterEach(async () => closeQueues(queues));
afterAll(() => connection.disconnect());

const state = async () => (await queues.launch.getJob(job.jobId))?.getState();
const asleep = () => queues.launch.add('launch', {}, { jobId: job.jobId, delay: hour });

/** What a live worker does beside its jobs, on an installation without clusters. */
async function whileAnotherLives(run: () => Promise<void>): Promise<void> {
  const context = { inventory: world.inventory, clusters: { names: () => [] }, log: createLogger('fatal') };
  const wakeups = await startWakeups(context as unknown as Parameters<typeof startWakeups>[0], queues);
  try {
    await run();
  } finally {
    await wakeups.stop();
  }
}

const claims = () => world.inventory.staleClaims(0);
const soon = { timeout: 20_000 };

describe('a waiter whose worker died over waking it', () => {
  it('between the claim and the promotion: another worker promotes it', async () => {
    await asleep();
    await world.inventory.registerWait(job, ['global']);
    expect(await world.inventory.claimWaiters('global', 1)).toEqual([job]);
    await whileAnotherLives(async () => {
      await expect.poll(state, soon).not.toBe('delayed');
      await expect.poll(claims, soon).toEqual([]);
    });
  });

  it('between its own move to sleep and the look whether it was woken meanwhile: another worker promotes it', async () => {
    const options = { connection, prefix: queuePrefix('windlass', 'test', 'launch') };
    const asleepFirst = async (_job: unknown, token: string | undefined) => {
      await world.inventory.registerWait(job, ['global']);
      // The other worker claims it now, and finds a job that is not asleep.
      expect(await world.inventory.claimWaiters('global', 1)).toEqual([job]);
      await (await queues.launch.getJob(job.jobId))?.moveToDelayed(Date.now() + hour, token);
      throw new DelayedError();
    };
    const worker = new Worker('launch', asleepFirst, options);
    await queues.launch.add('launch', {}, { jobId: job.jobId });
    await expect.poll(state, soon).toBe('delayed');
    await worker.close();
    await whileAnotherLives(() => expect.poll(state, soon).not.toBe('delayed'));
  });

  it('after the promotion: it is not promoted again, and its claim is forgotten, however long it stands in the queue', async () => {
    await asleep();
    await world.inventory.registerWait(job, ['global']);
    await world.inventory.claimWaiters('global', 1);
    await (await queues.launch.getJob(job.jobId))?.promote();
    await whileAnotherLives(() => expect.poll(claims, soon).toEqual([]));
    expect(await state()).toBe('waiting');
  });

  it('is no claim any more once it waits again, or its job is gone', async () => {
    await world.inventory.registerWait(job, ['global']);
    await world.inventory.claimWaiters('global', 1);
    expect(await claims()).toMatchObject([job]);
    await world.inventory.registerWait(job, ['owner:ann']);
    expect(await claims()).toEqual([]);
    await world.inventory.claimWaiters('owner:ann', 1);
    await whileAnotherLives(() => expect.poll(claims, soon).toEqual([]));
  });

  it('and whose claim another one clears late keeps the claim that was made since: its own may die over it', async () => {
    const claim = async () => {
      await world.inventory.registerWait(job, ['global']);
      await world.inventory.claimWaiters('global', 1);
      return (await claims())[0];
    };
    const first = await claim();
    // Woken by the first, it began, waited again and was claimed by a third before the second cleared what it had seen.
    await expect.poll(async () => (await claim())?.claimedAt).not.toBe(first?.claimedAt);
    await world.inventory.clearClaim({ ...job, claimedAt: first?.claimedAt ?? '' });
    const [left] = await claims();
    expect(left).toMatchObject(job);
    await world.inventory.clearClaim({ ...job, claimedAt: left?.claimedAt ?? '' });
    expect(await claims()).toEqual([]);
  });
});
