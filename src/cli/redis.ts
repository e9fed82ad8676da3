import type { LoadedConfig } from '../config/load.ts';
import { connected, createRedis } from '../inventory/connection.ts';
import { inventoryTag } from '../inventory/keys.ts';
import { checkAccess } from '../inventory/redis-access.ts';
import { checkRedis, type RedisFacts } from '../inventory/redis-facts.ts';
import { createShelf, type Shelf } from '../inventory/shelf.ts';
import { queueNames, queuePrefix } from '../producers/queue.ts';

type Connection = ReturnType<typeof createRedis>;

async function withRedis<T>(loaded: LoadedConfig, use: (redis: Connection) => Promise<T>): Promise<T> {
  const redis = await connected(createRedis(loaded.config.redis, loaded.env, loaded.dir, 'commands'));
  try {
    return await use(redis);
  } finally {
    redis.disconnect();
  }
}

/** Throws what a worker would refuse to start with. */
export const redisFactsOf = (loaded: LoadedConfig): Promise<RedisFacts> => withRedis(loaded, (redis) => checkRedis(redis));

/** Throws when the Redis user may not do what callers and workers do, on our keys and on those of the queues. */
export async function checkRedisAccess(loaded: LoadedConfig): Promise<void> {
  const { prefix } = loaded.config.redis;
  const { installation } = loaded.config;
  const queues = queueNames.map((name) => queuePrefix(prefix, installation, name));
  await withRedis(loaded, (redis) => checkAccess(redis, [inventoryTag(prefix, installation), ...queues]));
}

export const withShelf = <T>(loaded: LoadedConfig, use: (shelf: Shelf) => Promise<T>): Promise<T> =>
  withRedis(loaded, (redis) => use(createShelf(redis, inventoryTag(loaded.config.redis.prefix, loaded.config.installation))));
