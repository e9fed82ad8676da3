import { Redis } from 'ioredis';
import { expect, test } from 'vitest';
import { createShelf } from '../../src/inventory/shelf.ts';
import { refusal, tag, until, useWorld } from './inventory-support.ts';

const world = useWorld();

test('a shelf keeps documents, for as long as asked, and the first of two that must not overwrite', async () => {
  const shelf = createShelf(world.raw, tag);
  expect(await shelf.get('offer')).toBeUndefined();
  await shelf.put('offer', { profiles: ['ü'] });
  expect(await shelf.get('offer')).toEqual({ profiles: ['ü'] });
  expect(await shelf.putIfAbsent('offer', 'other')).toEqual({ profiles: ['ü'] });
  expect(await shelf.putIfAbsent('fresh', 'mine', 1)).toBe('mine');
  await until(async () => (await shelf.get('fresh')) === undefined);
  await shelf.drop('offer');
  expect(await shelf.get('offer')).toBeUndefined();
});

test('a list on a shelf keeps the newest', async () => {
  const shelf = createShelf(world.raw, tag);
  for (const n of [1, 2, 3, 4]) await shelf.push('reports', { n }, 2);
  expect(await shelf.items('reports')).toEqual([{ n: 4 }, { n: 3 }]);
});

test('a shelf that cannot be reached says redis_unavailable', async () => {
  const redis = new Redis(world.redis.url);
  await redis.ping();
  redis.disconnect();
  const shelf = createShelf(redis, tag);
  expect(await refusal(shelf.get('offer'))).toBe('redis_unavailable');
  expect(await refusal(shelf.put('offer', 1))).toBe('redis_unavailable');
});
