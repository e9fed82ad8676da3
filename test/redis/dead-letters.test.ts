import { UnrecoverableError, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, expect, it } from 'vitest';
import { deadLetters, redrive } from '../../src/producers/dead-letters.ts';
import { closeQueues, openQueues, type Queues, queuePrefix } from '../../src/producers/queue.ts';
import { useWorld } from './inventory-support.ts';

const world = useWorld();
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

const send = async () => undefined;
const post = (seen: () => Promise<Queues> = async () => queues) => ({ inventory: world.inventory, queues: seen, send });

/** Raw jobs that were refused before anything was written, the first the latest. */
async function refusedJobs(...ids: string[]): Promise<void> {
  const options = { connection, prefix: queuePrefix('windlass', 'test', 'launch') };
  const refuse = async () => {
    throw new UnrecoverableError('payload_invalid: profile');
  };
  const worker = new Worker('launch', refuse, options);
  try {
    for (const id of [...ids].reverse()) {
      await queues.launch.add('launch', { version: 1, instanceId: id }, { jobId: id });
      await expect.poll(async () => (await queues.launch.getJob(id))?.isFailed(), { timeout: 20_000 }).toBe(true);
    }
  } finally {
    await worker.close();
  }
}

/** `act` comes between the look at all letters and the first one that is sent. */
function inBetween(act: () => Promise<unknown>): () => Promise<Queues> {
  let calls = 0;
  return async () => {
    if (++calls === 2) await act();
    return queues;
  };
}

it('a letter that is removed, or sent by somebody else, while another sends it is told as not sent, and those after it are', async () => {
  for (const act of [() => queues.launch.remove('first'), async () => (await queues.launch.getJob('first'))?.retry('failed')]) {
    await refusedJobs('first', 'second');
    const answers = await redrive(post(inBetween(act)), undefined);
    expect(answers).toEqual([
      { jobId: 'first', instanceId: 'first', newJobId: null, error: expect.objectContaining({ code: 'instance_conflict' }) },
      { jobId: 'second', instanceId: 'second', newJobId: 'second' },
    ]);
    expect(await deadLetters(post())).toEqual([]);
    await world.raw.flushall();
  }
});

it('one that cannot be sent is told with its reason beside those that were', async () => {
  await refusedJobs('first', 'second');
  const fails = inBetween(async () => {
    throw new Error('out of order');
  });
  expect(await redrive(post(fails), undefined)).toMatchObject([
    { jobId: 'first', newJobId: null, error: { message: expect.stringContaining('out of order') } },
    { jobId: 'second', newJobId: 'second' },
  ]);
  expect((await deadLetters(post())).map(({ jobId }) => jobId)).toEqual(['first']);
});
