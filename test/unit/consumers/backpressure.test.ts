import { expect, it } from 'vitest';
import { startBackpressure } from '../../../src/consumers/backpressure.ts';
import { WindlassError } from '../../../src/errors.ts';
import { backoffMs, spreadMs } from '../../../src/jobs/catalog.ts';

const silent = { debug() {}, info() {}, warn() {}, error() {}, fatal() {} };

/** A Redis that is as full as the next of these says; undefined = it does not answer. */
function redis(...shares: (number | undefined)[]) {
  const woken: string[] = [];
  return {
    woken,
    inventory: {
      facts: async () => {
        const share = shares.shift();
        if (share === undefined) throw new WindlassError('redis_unavailable');
        return {
          version: '7',
          evictionPolicy: 'noeviction',
          persistence: 'aof',
          maxmemory: share < 0 ? 0 : 1000,
          used: share * 1000,
        } as const;
      },
      wake: async (keys: readonly string[]) => void woken.push(...keys),
    },
  };
}

it('new launches wait from 85 % on, go on below 80 %, and the last verdict is held while Redis does not answer', async () => {
  const { inventory, woken } = redis(0.84, 0.85, undefined, 0.82, undefined, 0.79, undefined, 0.84);
  const backpressure = startBackpressure(inventory, { enabled: true, log: silent });
  const verdicts: boolean[] = [];
  for (let look = 0; look < 8; look++) verdicts.push(await backpressure.look());
  backpressure.stop();
  expect(verdicts).toEqual([false, true, true, true, true, false, false, false]);
  expect(woken).toEqual(['pressure']);
});

it('without a limit, or when it is switched off, nobody waits', async () => {
  const unlimited = startBackpressure(redis(-1).inventory, { enabled: true, log: silent });
  expect(await unlimited.look()).toBe(false);
  unlimited.stop();
  const off = startBackpressure(redis(0.99).inventory, { enabled: false, log: silent });
  await off.look();
  expect(off.pressed()).toBe(false);
});

it('C69 who is told to come back together comes back spread over half of the time or more, never before', () => {
  const draws = [0, 0.25, 0.5, 0.75, 0.999];
  const asked = draws.map((draw) => spreadMs(2000, () => draw));
  expect(Math.min(...asked)).toBe(2000);
  expect(Math.max(...asked) - Math.min(...asked)).toBeGreaterThan(1000);
  const backed = draws.map((draw) => backoffMs(4, () => draw));
  expect(Math.max(...backed) - Math.min(...backed)).toBeGreaterThan(0.49 * Math.max(...backed));
});
