import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { type Config, configSchema } from '../../src/config/schema.ts';
import { builtSweeps } from '../../src/jobs/catalog.ts';
import { closeQueues, openQueues, type Queues } from '../../src/producers/queue.ts';
import { upsertSchedules } from '../../src/producers/schedules.ts';
import { startRedis, type TestRedis } from '../support/redis.ts';

let redis: TestRedis;
let raw: Redis;
let queues: Queues;

const sealing = [{ id: 's', publicKey: { kty: 'EC', crv: 'P-256', x: 'x', y: 'y' }, privateKeyEnv: 'S' }];
const configWith = (sweeps: object): Config =>
  configSchema.parse({
    clusters: { default: { authMode: 'in_cluster', namespace: 'default' } },
    secrets: { sealing, atRest: [{ id: 'k', keyEnv: 'K' }] },
    sweeps,
  });
const schedulers = async () =>
  (await queues.sweep.getJobSchedulers()).map(({ key, every, pattern, tz }) => ({
    key,
    every: every === undefined ? undefined : Number(every),
    pattern,
    tz,
  }));
const delayed = async () => (await queues.sweep.getDelayed()).length;
const waiting = async () => queues.sweep.getJobCountByTypes('delayed', 'waiting', 'prioritized');

beforeAll(async () => {
  redis = await startRedis();
  raw = new Redis(redis.url, { maxRetriesPerRequest: null });
});
beforeEach(async () => {
  await raw.flushall();
  queues = openQueues(raw, 'windlass', 'test');
});
afterEach(async () => closeQueues(queues));
afterAll(async () => {
  raw.disconnect();
  await redis.stop();
});

describe('C75: the schedules of sweeps', () => {
  it('C77: replace what an older BullMQ left under the same keys, and do not fail on it', async () => {
    const prefix = '{windlass:test:sweep}:sweep';
    const old = ['sweep:::60000', 'sweep:orphans::UTC:*/5 * * * *', 'f'.repeat(32)];
    for (const [at, key] of old.entries()) await raw.zadd(`${prefix}:repeat`, String(Date.now() + at), key);
    await raw.hset(`${prefix}:repeat:${old[2]}`, { name: 'sweep', every: '60000' });
    await upsertSchedules(queues, configWith({}));
    await upsertSchedules(queues, configWith({}));
    expect((await schedulers()).map(({ key }) => key).sort()).toEqual(builtSweeps.map((kind) => `sweep-${kind}`).sort());
    expect(await raw.zrange(`${prefix}:repeat`, '0', '-1')).toHaveLength(builtSweeps.length);
    expect(await waiting()).toBe(builtSweeps.length);
  });

  it('are one scheduler and one job for each kind, however many workers start however often', async () => {
    const config = configWith({});
    for (let restart = 0; restart < 10; restart++) await upsertSchedules(queues, config);
    expect((await schedulers()).map(({ key }) => key).sort()).toEqual(builtSweeps.map((kind) => `sweep-${kind}`).sort());
    expect(await waiting()).toBe(builtSweeps.length);
  });

  it('are replaced when the interval changes, or becomes a cron pattern', async () => {
    await upsertSchedules(queues, configWith({ orphans: { every: 60 } }));
    await upsertSchedules(queues, configWith({ orphans: { every: 300 } }));
    expect((await schedulers()).find(({ key }) => key === 'sweep-orphans')).toMatchObject({ every: 300_000 });
    await upsertSchedules(queues, configWith({ orphans: { cron: '30 1 * * *', tz: 'America/New_York' } }));
    expect((await schedulers()).filter(({ key }) => key === 'sweep-orphans')).toMatchObject([
      { pattern: '30 1 * * *', tz: 'America/New_York' },
    ]);
    expect(await waiting()).toBe(builtSweeps.length);
  });

  it('of a kind that is gone are removed with their job', async () => {
    await queues.sweep.upsertJobScheduler('sweep-of-yore', { pattern: '0 0 1 1 *' }, { name: 'sweep', data: {} });
    await upsertSchedules(queues, configWith({}));
    expect((await schedulers()).map(({ key }) => key)).not.toContain('sweep-of-yore');
    expect(await waiting()).toBe(builtSweeps.length);
  });

  it('are there again in the next round after FLUSHALL, without a restart', async () => {
    await upsertSchedules(queues, configWith({}));
    await raw.flushall();
    expect(await schedulers()).toEqual([]);
    await upsertSchedules(queues, configWith({}));
    expect(await schedulers()).toHaveLength(builtSweeps.length);
  });
});

describe('C78: a daily sweep', () => {
  afterEach(() => {
    vi.useRealTimers();
  });

  /** The next runs from `from` on, each asked for after the one before, as a scheduler does. */
  async function runs(from: string, days: number, cron: string, tz?: string): Promise<string[]> {
    vi.useFakeTimers({ toFake: ['Date'] });
    const found: string[] = [];
    let now = Date.parse(from);
    for (let day = 0; day < days; day++) {
      vi.setSystemTime(now);
      await raw.flushall();
      await upsertSchedules(queues, configWith({ orphans: { cron, ...(tz === undefined ? {} : { tz }) } }));
      const next = (await queues.sweep.getJobScheduler('sweep-orphans'))?.next ?? 0;
      found.push(new Date(next).toISOString());
      now = next + 1000;
    }
    return found;
  }
  const dayIn = (tz: string) => (at: string) =>
    new Intl.DateTimeFormat('en-CA', { timeZone: tz, dateStyle: 'short' }).format(new Date(at));

  it.each([
    ['30 1 * * *', '2026-03-06T12:00:00Z'],
    ['30 2 * * *', '2026-03-06T12:00:00Z'],
    ['30 1 * * *', '2026-10-30T12:00:00Z'],
    ['30 2 * * *', '2026-10-30T12:00:00Z'],
  ])('at %s in New York runs once a day across the change of %s', async (cron, from) => {
    const found = await runs(from, 5, cron, 'America/New_York');
    const days = found.map(dayIn('America/New_York'));
    const first = Date.parse(days[0] as string);
    expect(days).toEqual([0, 1, 2, 3, 4].map((day) => new Date(first + day * 86_400_000).toISOString().slice(0, 10)));
  });

  it('without a zone is in UTC', async () => {
    expect(await runs('2026-03-06T12:00:00Z', 2, '30 2 * * *')).toEqual(['2026-03-07T02:30:00.000Z', '2026-03-08T02:30:00.000Z']);
    expect(configWith({ orphans: { cron: '30 2 * * *' } }).sweeps.orphans.tz).toBe('UTC');
    expect(await delayed()).toBeGreaterThan(0);
  });
});
