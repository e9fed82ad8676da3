import type { Redis, Cluster as RedisCluster } from 'ioredis';
import { effect } from '../effects.ts';
import { asking } from './redis-error.ts';

/**
 * Small shared documents beside the records, under the inventory's hash tag: the offer, snapshots, epochs, sightings of
 * sweeps, reports. Each is one JSON value; none of them decides what an instance is.
 */
export interface Shelf {
  get<T>(name: string): Promise<T | undefined>;
  /** `ttlSeconds` undefined = kept. */
  put(name: string, value: unknown, ttlSeconds?: number): Promise<void>;
  /** Writes only when there is none; answers what is there afterwards. */
  putIfAbsent<T>(name: string, value: T, ttlSeconds?: number): Promise<T>;
  drop(name: string): Promise<void>;
  /** Prepends to a list that keeps `keep` values. */
  push(name: string, value: unknown, keep: number): Promise<void>;
  items<T>(name: string): Promise<T[]>;
}

export function createShelf(redis: Redis | RedisCluster, tag: string): Shelf {
  const key = (name: string) => `${tag}:shelf:${name}`;
  const write = <T>(run: () => Promise<T>) => effect('redis.shelf', undefined, () => asking(run));
  const parse = <T>(text: string | null) => (text === null ? undefined : (JSON.parse(text) as T));
  return {
    get: async <T>(name: string) => parse<T>(await asking(() => redis.get(key(name)))),
    async put(name, value, ttlSeconds) {
      const text = JSON.stringify(value);
      await write(async () => {
        if (ttlSeconds === undefined) await redis.set(key(name), text);
        else await redis.set(key(name), text, 'EX', ttlSeconds);
      });
    },
    async putIfAbsent<T>(name: string, value: T, ttlSeconds?: number) {
      const text = JSON.stringify(value);
      const written = await write(() =>
        ttlSeconds === undefined ? redis.set(key(name), text, 'NX') : redis.set(key(name), text, 'EX', ttlSeconds, 'NX'),
      );
      if (written !== null) return value;
      return parse<T>(await asking(() => redis.get(key(name)))) ?? value;
    },
    async drop(name) {
      await write(() => redis.del(key(name)));
    },
    async push(name, value, keep) {
      await write(async () => {
        await redis.lpush(key(name), JSON.stringify(value));
        await redis.ltrim(key(name), 0, keep - 1);
      });
    },
    items: async <T>(name: string) => (await asking(() => redis.lrange(key(name), 0, -1))).map((text) => JSON.parse(text) as T),
  };
}
