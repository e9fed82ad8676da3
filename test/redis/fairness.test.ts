import { Worker } from 'bullmq';
import { Redis } from 'ioredis';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { addJob, closeQueues, openQueues, type Queues, queuePrefix } from '../../src/producers/queue.ts';
import { intend, useWorld } from './inventory-support.ts';

const world = useWorld();
const concurrency = 5;
let connection: Redis;
let queues: Queues;
let worker: Worker | undefined;

beforeEach(() => {
  connection = new Redis(world.redis.url, { maxRetriesPerRequest: null });
  queues = openQueues(connection, 'windlass', 'test');
});
afterEach(async () => {
  await worker?.close(true);
  await closeQueues(queues);
  connection.disconnect();
});

/** As a producer does it: the intent, then the job under the priority that the intent gave it. */
async function launch(instanceId: string, owner: string): Promise<string> {
  const { job } = await intend(world.inventory, instanceId, { owner });
  await addJob(queues, job);
  return job.jobId;
}

it('C87 the only launch of one owner starts within twice the slots, although another has asked for a thousand before and they are being worked on', async () => {
  for (let at = 0; at < 1000; at += 100)
    await Promise.all(Array.from({ length: 100 }, (_, index) => launch(`many ${at + index}`, 'u1')));
  let open = () => {};
  const gate = new Promise<void>((resolve) => {
    open = resolve;
  });
  const starts: string[] = [];
  const prefix = queuePrefix('windlass', 'test', 'launch');
  const work = async ({ id = '' }: { id?: string }) => {
    starts.push(id);
    await gate;
  };
  worker = new Worker('launch', work, { connection, prefix, concurrency });
  await expect.poll(() => starts.length, { timeout: 10_000 }).toBe(concurrency);
  const single = await launch('single', 'u2');
  open();
  await expect.poll(() => starts.includes(single), { timeout: 20_000 }).toBe(true);
  expect(starts.indexOf(single) - concurrency).toBeLessThan(2 * concurrency);
}, 60_000);
