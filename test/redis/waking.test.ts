import { type Job, Worker } from 'bullmq';
import { Redis } from 'ioredis';
import { afterEach, beforeEach, describe, expect, it } from 'vitest';
import { settle } from '../../src/consumers/disposition.ts';
import { startWakeups, type Wakeups } from '../../src/consumers/wakeups.ts';
import type { Inventory } from '../../src/inventory/port.ts';
import type { WaitExit } from '../../src/jobs/exit.ts';
import { closeQueues, openQueues, type Queues, queuePrefix } from '../../src/producers/queue.ts';
import { useWorld } from './inventory-support.ts';

const world = useWorld();
const silent = { debug() {}, info() {}, warn() {}, error() {}, fatal() {} };
const key = 'global';
/** Longer than any test: only a wake-up brings a job back before that. */
const sleepMs = 600_000;

let queues: Queues;
let connection: Redis;
const workers: Worker[] = [];
const wakeups: Wakeups[] = [];

beforeEach(() => {
  connection = new Redis(world.redis.url, { maxRetriesPerRequest: null });
  queues = openQueues(connection, 'windlass', 'test');
});
afterEach(async () => {
  for (const running of wakeups.splice(0)) await running.stop();
  for (const worker of workers.splice(0)) await worker.close(true);
  await closeQueues(queues);
  connection.disconnect();
});

/** Another worker process: it hears wake-ups and promotes who waits for them, and takes no jobs. */
async function waker(): Promise<Inventory> {
  const inventory = await world.open({ holder: 'waker' });
  const context = { inventory, log: silent, clusters: { names: () => [] } } as unknown as Parameters<typeof startWakeups>[0];
  wakeups.push(await startWakeups(context, queues));
  return inventory;
}

type Step = 'registered' | 'moved' | 'looked' | 'never';

/** The waiter's first start waits, with `between` run after this step of the order; its second is the end. `gate` holds the first other job. */
function consume(
  step: Step,
  between: () => Promise<unknown>,
  gate: Promise<void> = Promise.resolve(),
): { readonly starts: string[] } {
  const starts: string[] = [];
  const { inventory } = world;
  const prefix = queuePrefix('windlass', 'test', 'launch');
  const at = async (now: Step) => {
    if (now === step) await between();
  };
  const process = async (job: Job, token?: string) => {
    starts.push(job.id ?? '');
    if (job.id === 'other 0') await gate;
    if (job.id !== 'waiter' || starts.filter((id) => id === 'waiter').length > 1) return {};
    const ticket = await inventory.registerWait({ queue: 'launch', jobId: 'waiter' }, [key]);
    await at('registered');
    const looking: Inventory = {
      ...inventory,
      async wakeNumbers(keys) {
        await at('moved');
        return inventory.wakeNumbers(keys);
      },
    };
    // The last look of all; what comes after it is for whoever wakes.
    const ready = async () => {
      await at('looked');
      return false;
    };
    const exit: WaitExit = { kind: 'wait', reason: 'cluster_saturated', delayMs: sleepMs, keys: [key], ticket, ready };
    return settle(job, token ?? '', exit, looking);
  };
  workers.push(
    new Worker('launch', (job, token, _signal) => process(job, token), {
      connection,
      prefix,
      concurrency: 1,
      lockDuration: 4000,
      stalledInterval: 1000,
    }),
  );
  return { starts };
}

const twice = (starts: readonly string[]) =>
  expect.poll(() => starts.filter((id) => id === 'waiter').length, { timeout: 20_000 }).toBe(2);

describe('a wake-up that comes', () => {
  it.each(['registered', 'moved'] as const)(
    'after the step "%s" is found by the job itself when nobody hears the message',
    async (step) => {
      const { starts } = consume(step, () => world.inventory.wake([key]));
      await queues.launch.add('launch', {}, { jobId: 'waiter' });
      await twice(starts);
    },
  );

  it.each(['registered', 'moved', 'looked'] as const)(
    'after the step "%s" while another worker claims the waiter and promotes it starts it once more, and no more',
    async (step) => {
      const other = await waker();
      const claimed = async () => (await world.raw.zcard('{windlass:test:inventory}:waiters:global')) === 0;
      const { starts } = consume(step, async () => {
        await other.wake([key]);
        // The other worker has it in hand before this one takes its next step.
        await expect.poll(claimed, { timeout: 10_000 }).toBe(true);
      });
      await queues.launch.add('launch', {}, { jobId: 'waiter' });
      await twice(starts);
      await expect.poll(() => queues.launch.getJobState('waiter'), { timeout: 10_000 }).toBe('completed');
      await queues.launch.add('launch', {}, { jobId: 'afterwards' });
      await expect.poll(() => starts.at(-1), { timeout: 10_000 }).toBe('afterwards');
      expect(starts).toEqual(['waiter', 'waiter', 'afterwards']);
    },
  );

  it('while the job sleeps starts it before a backlog of a thousand that was asked for with more urgency', async () => {
    const other = await waker();
    let open = () => {};
    const gate = new Promise<void>((resolve) => {
      open = resolve;
    });
    const { starts } = consume('never', async () => undefined, gate);
    const stateOf = () => queues.launch.getJobState('waiter');
    await queues.launch.add('launch', {}, { jobId: 'waiter', priority: 5000 });
    await expect.poll(stateOf, { timeout: 10_000 }).toBe('delayed');
    const ids = Array.from({ length: 1000 }, (_, at) => `other ${at}`);
    await queues.launch.addBulk(ids.map((jobId, at) => ({ name: 'launch', data: {}, opts: { jobId, priority: 1000 + at } })));
    await expect.poll(() => starts.length, { timeout: 10_000 }).toBe(2);
    await other.wake([key]);
    await expect.poll(stateOf, { timeout: 10_000 }).not.toBe('delayed');
    open();
    await expect.poll(() => starts.length, { timeout: 10_000 }).toBeGreaterThan(2);
    expect(starts.slice(0, 3)).toEqual(['waiter', 'other 0', 'waiter']);
  });
});

describe('what all wait for together', () => {
  it('wakes all of a thousand, not only as many as one script claims', async () => {
    const other = await waker();
    const ids = Array.from({ length: 1000 }, (_, at) => `held ${at}`);
    await queues.launch.addBulk(
      ids.map((jobId) => ({ name: 'launch', data: {}, opts: { jobId, delay: sleepMs, priority: 1000 } })),
    );
    await Promise.all(ids.map((jobId) => world.inventory.registerWait({ queue: 'launch', jobId }, ['pressure'])));
    await other.wake(['pressure']);
    await expect.poll(() => queues.launch.getDelayedCount(), { timeout: 25_000 }).toBe(0);
  }, 60_000);

  it('one freed place wakes one, and passes over a job that was removed from its queue', async () => {
    const other = await waker();
    const ids = ['launch-aa-10-1', 'launch-bb-20-1', 'launch-cc-30-1'];
    for (const jobId of ids) {
      await queues.launch.add('launch', {}, { jobId, delay: sleepMs });
      await world.inventory.registerWait({ queue: 'launch', jobId }, [key]);
    }
    await queues.launch.remove('launch-aa-10-1');
    await other.wake([key]);
    await expect.poll(() => queues.launch.getJobState('launch-bb-20-1'), { timeout: 10_000 }).not.toBe('delayed');
    expect(await queues.launch.getJobState('launch-cc-30-1')).toBe('delayed');
  });
});
