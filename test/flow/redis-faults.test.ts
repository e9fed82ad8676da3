import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type EmbeddedCluster, startCluster } from '../support/cluster.ts';
import { startRedis, type TestRedis } from '../support/redis.ts';
import { createWorld, type World } from '../support/world.ts';

let embedded: EmbeddedCluster;
let dir: string;
let redis: TestRedis;
let world: World;
const start = (port?: number) =>
  startRedis({ ...(port === undefined ? {} : { port }), args: ['--dir', dir, '--appendonly', 'yes'] });

beforeAll(async () => {
  embedded = await startCluster();
});
afterAll(async () => embedded?.close());
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'windlass-aof-'));
  redis = await start();
  world = await createWorld({ kubeconfig: embedded.kubeconfig, namespace: 'default', image: 'node:24', redis });
  await world.worker();
});
afterEach(async () => {
  await world?.stop();
  await redis?.stop();
  await rm(dir, { recursive: true, force: true });
});

const request = (id: string) => ({ version: 1, instanceId: id, profile: 'node' });
const launch = (id: string) => world.operator.producer.launch(request(id));

async function admin<T>(use: (client: Redis) => Promise<T>): Promise<T> {
  const client = new Redis(redis.url);
  try {
    return await use(client);
  } finally {
    client.disconnect();
  }
}

async function clear(ids: readonly string[]): Promise<void> {
  for (const id of ids) await world.operator.producer.teardown({ version: 1, instanceId: id });
  for (const id of ids) await world.gone(id);
  expect(await world.leftovers()).toEqual([]);
}

describe('Redis fails under a worker', () => {
  it('C11 C71 killed and back: what was ready stays as it is, what was under way ends, nothing is done twice', async () => {
    await Promise.all(['done-1', 'done-2'].map(launch));
    const done = await Promise.all(['done-1', 'done-2'].map((id) => world.ready(id)));
    const active = ['active-1', 'active-2', 'active-3'];
    await Promise.all(active.map(launch));
    await redis.stop();
    redis = await start(redis.port);
    for (const id of active) await world.ready(id);
    for (const before of done)
      expect(await world.ready(before.instanceId)).toMatchObject({ fence: before.fence, pod: before.pod });
    expect((await world.leftovers()).length).toBe(10);
    await clear(['done-1', 'done-2', ...active]);
  });

  it('C71 away for longer than any command is waited for: the worker goes on by itself', async () => {
    await launch('interrupted');
    await world.until('interrupted', (record) => record?.state === 'launching' || record?.state === 'ready');
    process.kill(redis.pid, 'SIGSTOP');
    try {
      for (let refused = 0; refused < 3; refused++)
        await expect(world.operator.inventory.now()).rejects.toMatchObject({ code: 'redis_unavailable' });
    } finally {
      process.kill(redis.pid, 'SIGCONT');
    }
    await world.ready('interrupted');
    await launch('after');
    await world.ready('after');
    expect((await world.leftovers()).length).toBe(4);
    await clear(['interrupted', 'after']);
  });

  it('forgets its scripts: nobody notices', async () => {
    await launch('flushed');
    await world.until('flushed', (record) => record?.state === 'launching');
    await admin((client) => client.script('FLUSH'));
    await world.ready('flushed');
    await admin((client) => client.script('FLUSH'));
    await clear(['flushed']);
  });

  it('C73 is full: a launch is refused as unavailable, a teardown is accepted, done, and frees memory', async () => {
    await launch('heavy');
    await world.ready('heavy');
    await admin((client) => client.config('SET', 'maxmemory', '1mb'));
    await expect(launch('too much')).rejects.toMatchObject({ code: 'redis_unavailable' });
    await world.operator.producer.teardown({ version: 1, instanceId: 'heavy' });
    await world.gone('heavy');
    expect(await world.leftovers()).toEqual([]);
    await admin((client) => client.config('SET', 'maxmemory', '0'));
    await launch('afterwards');
    await world.ready('afterwards');
    await clear(['afterwards']);
  });

  it('C72 may evict: a worker does not start, and says what to set', async () => {
    await admin((client) => client.config('SET', 'maxmemory-policy', 'allkeys-lru'));
    await expect(world.worker()).rejects.toMatchObject({
      code: 'redis_misconfigured',
      message: expect.stringContaining('noeviction'),
    });
  });
});
