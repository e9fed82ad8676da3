import { Redis } from 'ioredis';
import { afterEach, describe, expect, test } from 'vitest';
import { redisSchema } from '../../src/config/schema.ts';
import { connected, createRedis } from '../../src/inventory/connection.ts';
import { checkAccess } from '../../src/inventory/redis-access.ts';
import { checkRedis } from '../../src/inventory/redis-facts.ts';
import { freePort, startRedis, type TestRedis } from '../support/redis.ts';
import { startSentinel } from '../support/redis-topology.ts';
import { begin, intend, launchOf, openInventory, ready, refusal, remove, tearDown, until } from './inventory-support.ts';

const stops: (() => unknown)[] = [];
afterEach(async () => {
  for (const stop of stops.splice(0).reverse()) await stop();
});

async function server(args: readonly string[] = [], port?: number): Promise<TestRedis> {
  const redis = await startRedis({ args, ...(port === undefined ? {} : { port }) });
  stops.push(() => redis.stop());
  return redis;
}

async function inventoryAt(url: string, more: Partial<Parameters<typeof redisSchema.parse>[0] & object> = {}, env = {}) {
  const inventory = await openInventory({
    redis: redisSchema.parse({ url, ...more }),
    env: (name) => (env as Record<string, string>)[name],
  });
  stops.push(() => inventory.close());
  return inventory;
}

function rawAt(port: number): Redis {
  const raw = new Redis(port, '127.0.0.1');
  stops.push(() => raw.disconnect());
  return raw;
}

async function check(url: string) {
  const redis = createRedis(redisSchema.parse({ url }), () => undefined, '/', 'commands');
  stops.push(() => redis.disconnect());
  return checkRedis(await connected(redis));
}

describe('a Redis that is away', () => {
  test('is said so when it refuses connections', async () => {
    const url = `redis://127.0.0.1:${await freePort()}`;
    expect(await refusal(inventoryAt(url))).toBe('redis_unavailable');
  });

  test('is said so when it accepts and never answers', async () => {
    const redis = await server();
    process.kill(redis.pid, 'SIGSTOP');
    stops.push(() => process.kill(redis.pid, 'SIGCONT'));
    expect(await refusal(inventoryAt(redis.url))).toBe('redis_unavailable');
  });

  test('fails calls under way, and works again when it is back', async () => {
    const port = await freePort();
    const first = await server([], port);
    const inventory = await inventoryAt(first.url);
    await first.stop();
    const codes = await Promise.all([refusal(inventory.intendLaunch(launchOf('a'))), refusal(inventory.read('a'))]);
    expect(codes).toEqual(['redis_unavailable', 'redis_unavailable']);
    await server([], port);
    await until(async () => (await refusal(inventory.read('a'))) === 'not refused');
    expect(await intend(inventory, 'b')).toMatchObject({ kind: 'accepted' });
  });
});

test('messages come again after Redis was restarted, and waits end while it is away', async () => {
  const port = await freePort();
  const first = await server([], port);
  const inventory = await inventoryAt(first.url);
  const heard: string[] = [];
  await inventory.onWake((key) => heard.push(key));
  await first.stop();
  // Far longer than a test may take: it ends because Redis is away.
  expect(await refusal(inventory.waitForEvent('a', 0, 600_000))).toBe('redis_unavailable');
  await server([], port);
  await until(async () => {
    await refusal(inventory.wake(['pod:x']));
    return heard.includes('pod:x');
  });
});

test('a flushed Redis takes the lease and the right to write with it (C36); forgotten scripts are sent again', async () => {
  const redis = await server();
  const inventory = await inventoryAt(redis.url);
  const { lease } = await begin(inventory, 'a', await intend(inventory, 'a'));
  await rawAt(redis.port).flushall();
  await rawAt(redis.port).script('FLUSH');
  expect(await refusal(inventory.write(lease, { state: 'ready' }))).toBe('lease_lost');
  await until(() => lease.signal.aborted);
  expect(lease.signal.reason).toMatchObject({ code: 'lease_lost' });
  expect((await inventory.list({ limit: 10 })).items).toEqual([]);
  expect(await intend(inventory, 'a')).toMatchObject({ kind: 'accepted' });
});

describe('start-up', () => {
  test('refuses a Redis that evicts (C72), and tells which policy it has', async () => {
    const redis = await server(['--maxmemory', '100mb', '--maxmemory-policy', 'allkeys-lru']);
    await expect(check(redis.url)).rejects.toMatchObject({
      code: 'redis_misconfigured',
      message: expect.stringContaining('allkeys-lru'),
    });
  });

  test('reads version, memory and persistence from INFO alone', async () => {
    const redis = await server(['--maxmemory', '100mb', '--appendonly', 'yes']);
    expect(await check(redis.url)).toMatchObject({ persistence: 'aof', maxmemory: 104857600, evictionPolicy: 'noeviction' });
    const bare = await server();
    expect(await check(bare.url)).toMatchObject({ persistence: 'none', maxmemory: 0 });
  });

  test('takes the password from the variable that the configuration names', async () => {
    const redis = await server(['--requirepass', 'p@ss/w:rd']);
    const inventory = await inventoryAt(redis.url, { passwordEnv: 'SECRET' }, { SECRET: 'p@ss/w:rd' });
    expect(await intend(inventory, 'a')).toMatchObject({ kind: 'accepted' });
    const other = await inventoryAt(redis.url.replace('//', `//:${encodeURIComponent('p@ss/w:rd')}@`));
    expect((await other.read('a'))?.state).toBe('requested');
    await expect(inventoryAt(redis.url, { passwordEnv: 'SECRET' }, {})).rejects.toMatchObject({
      code: 'config_invalid',
      issues: [{ path: 'redis.passwordEnv' }],
    });
    expect(await refusal(inventoryAt(redis.url, { passwordEnv: 'SECRET' }, { SECRET: 'wrong' }))).toBe('redis_unavailable');
  });
});

test('a Redis user that may only touch our keys and channels suffices', async () => {
  const redis = await server();
  const rules = ['on', '>pw', '~{windlass:*', '&{windlass:*', '+@all', '-@dangerous', '+info', '+client|setname', '+client|id'];
  await rawAt(redis.port).call('ACL', 'SETUSER', 'worker', ...rules);
  const inventory = await inventoryAt(redis.url, { username: 'worker', passwordEnv: 'SECRET' }, { SECRET: 'pw' });
  await ready(inventory, 'a');
  await inventory.waitForEvent('a', 0, 1000);
  expect(await inventory.facts()).toMatchObject({ evictionPolicy: 'noeviction' });
  expect(await tearDown(inventory, 'a')).toBe('gone');
});

test('what a Redis user may not do is found before a worker needs it', async () => {
  const redis = await server();
  const enough = ['on', '>pw', '~{windlass:*', '&{windlass:*', '+@all', '-@dangerous', '+info', '+client|setname', '+client|id'];
  const tags = ['{windlass:test:inventory}', '{windlass:test:launch}'];
  const asUser = async (...rules: string[]) => {
    const raw = rawAt(redis.port);
    await raw.call('ACL', 'SETUSER', 'worker', 'reset', ...rules);
    const user = new Redis({ port: redis.port, username: 'worker', password: 'pw', enableReadyCheck: false });
    try {
      await checkAccess(user, tags);
      return (await raw.keys('*')).length;
    } finally {
      user.disconnect();
    }
  };
  expect(await asUser(...enough)).toBe(0);
  for (const missing of ['-xadd', '-eval', '-bzpopmin', 'resetchannels', 'resetkeys'])
    await expect(asUser(...enough, missing), missing).rejects.toMatchObject({ code: 'redis_misconfigured' });
  await expect(asUser(...enough, 'resetkeys', '~{windlass:test:inventory}*')).rejects.toMatchObject({
    code: 'redis_misconfigured',
  });
});

test('a full Redis refuses new requests, while running launches end and removals go through (C73)', async () => {
  const redis = await server(['--maxmemory', '8mb']);
  const raw = rawAt(redis.port);
  const inventory = await inventoryAt(redis.url);
  const running = await begin(inventory, 'a', await intend(inventory, 'a'));
  const waiting = await intend(inventory, 'b');
  await raw.set('ballast', 'x'.repeat(12_000_000)).catch(() => {});
  await raw.config('SET', 'maxmemory', '1mb');
  await expect(inventory.intendLaunch(launchOf('c'))).rejects.toMatchObject({
    code: 'redis_unavailable',
    message: expect.stringContaining('memory'),
  });
  expect(await inventory.read('c')).toBeUndefined();
  await inventory.write(running.lease, { state: 'rolling_back', events: [{ type: 'rolling_back' }] });
  await inventory.write(running.lease, { state: 'failed', waitOn: { job: waiting.job, keys: ['global'] }, release: true });
  expect(await inventory.claimWaiters('global', 1)).toHaveLength(1);
  const removal = await remove(inventory, 'b');
  const { lease } = await begin(inventory, 'b', removal, { verb: 'teardown' });
  expect(await inventory.finishRemoval(lease, { generation: removal.generation, suspended: false })).toBe('gone');
  expect(await inventory.tombstone('b')).toMatchObject({ owner: 'ann' });
});

test('a request is answered only when the replicas that the configuration asks for have it (C74)', async () => {
  const primary = await server(['--repl-diskless-sync-delay', '0']);
  const inventory = await inventoryAt(primary.url, { waitReplicas: 1 });
  await expect(inventory.intendLaunch(launchOf('a'))).rejects.toMatchObject({ code: 'redis_unavailable' });
  const replica = await server(['--replicaof', `127.0.0.1 ${primary.port}`]);
  const copy = rawAt(replica.port);
  await until(async () => (await copy.info('replication')).includes('master_link_status:up'));
  expect(await intend(inventory, 'a')).toMatchObject({ kind: 'deduplicated' });
  const accepted = await intend(inventory, 'b');
  expect(await copy.hget(`{windlass:test:inventory}:record:${inventory.hashOf('b')}`, 'generation')).toBe(
    `${accepted.generation}`,
  );
});

test('a whole life works on a Redis Cluster', async () => {
  const redis = await server(['--cluster-enabled', 'yes', '--cluster-announce-ip', '127.0.0.1']);
  const raw = rawAt(redis.port);
  await raw.call('CLUSTER', 'ADDSLOTSRANGE', '0', '16383');
  await until(async () => (await raw.call('CLUSTER', 'INFO'))?.toString().includes('cluster_state:ok') ?? false);
  const inventory = await inventoryAt(`redis+cluster://127.0.0.1:${redis.port}`, { waitReplicas: 0 });
  const other = await inventoryAt(`redis+cluster://127.0.0.1:${redis.port}`);
  const heard: string[] = [];
  await other.onWake((key) => heard.push(key));
  await ready(inventory, 'a');
  await inventory.wake(['pod:x']);
  await until(() => heard.includes('pod:x'));
  expect((await inventory.list({ limit: 10 })).items).toHaveLength(1);
  expect((await inventory.facts()).evictionPolicy).toBe('noeviction');
  expect(await inventory.stalePending(0)).toHaveLength(1);
  expect(await tearDown(inventory, 'a')).toBe('gone');
});

test('a master is found through Sentinel', async () => {
  const primary = await server();
  const sentinel = await startSentinel(primary.port);
  stops.push(() => sentinel.stop());
  const inventory = await inventoryAt(`redis+sentinel://127.0.0.1:${sentinel.port}/mymaster`);
  await ready(inventory, 'a');
  expect(await rawAt(primary.port).exists(`{windlass:test:inventory}:record:${inventory.hashOf('a')}`)).toBe(1);
});
