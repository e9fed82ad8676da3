import type { LoadedConfig } from '../config/load.ts';
import { connected, createRedis } from '../inventory/connection.ts';
import { inventoryTag } from '../inventory/keys.ts';
import { checkRedis, type RedisFacts } from '../inventory/redis-facts.ts';
import { createShelf, type Shelf } from '../inventory/shelf.ts';

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

export const withShelf = <T>(loaded: LoadedConfig, use: (shelf: Shelf) => Promise<T>): Promise<T> =>
  withRedis(loaded, (redis) => use(createShelf(redis, inventoryTag(loaded.config.redis.prefix, loaded.config.installation))));
