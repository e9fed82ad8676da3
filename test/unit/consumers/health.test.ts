import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type { Consumer } from '../../../src/consumers/consumer.ts';
import { type HealthServer, startHealthServer } from '../../../src/consumers/health.ts';
import type { Metrics } from '../../../src/consumers/metrics.ts';
import type { Queues } from '../../../src/producers/queue.ts';

let server: HealthServer;
let waiting: number | undefined;
let progressAt: number;
let running: number;

beforeEach(async () => {
  vi.useFakeTimers({ toFake: ['Date'], now: 1_000_000 });
  [waiting, progressAt, running] = [0, Date.now(), 0];
  const launch = {
    async getJobCounts() {
      if (waiting === undefined) throw new Error('Redis is away');
      return { waiting: 0, prioritized: waiting };
    },
  };
  const consumer = { queue: 'launch', lastProgress: () => progressAt, running: () => running } as Consumer;
  const metrics = {} as Metrics;
  server = await startHealthServer({
    port: 0,
    host: '127.0.0.1',
    queues: { launch } as unknown as Queues,
    consumers: [consumer],
    metrics,
  });
});
afterEach(async () => {
  await server.close();
  vi.useRealTimers();
});

const probe = async () => (await fetch(`http://127.0.0.1:${server.port}/healthz`)).status;
const pass = (seconds: number) => vi.setSystemTime(Date.now() + seconds * 1000);

it('C71 a worker that picks nothing up while jobs wait is not alive; one that works or has nothing to do is', async () => {
  waiting = 5;
  pass(59);
  expect(await probe()).toBe(200);
  pass(2);
  expect(await probe()).toBe(503);
  running = 1;
  expect(await probe()).toBe(200);
  [running, progressAt] = [0, Date.now()];
  expect(await probe()).toBe(200);
  pass(61);
  waiting = 0;
  expect(await probe()).toBe(200);
});

it('C71 a job that came a moment ago is no reason to end a worker that had nothing to do for an hour', async () => {
  for (let minute = 0; minute < 60; minute++) {
    pass(60);
    expect(await probe()).toBe(200);
  }
  waiting = 1;
  pass(10);
  expect(await probe()).toBe(200);
  pass(60);
  expect(await probe()).toBe(503);
});

it('C71 who cannot ask does not claim to make progress, once it has made none for that long', async () => {
  waiting = undefined;
  pass(59);
  expect(await probe()).toBe(200);
  pass(2);
  expect(await probe()).toBe(503);
});
