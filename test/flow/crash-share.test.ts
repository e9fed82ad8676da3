import { describe, expect, it } from 'vitest';
import { crashMatrix } from '../support/chaos/matrix.ts';

/** `npm run chaos` does them all. */
const share = { kills: 6, seed: 20 };

describe('a worker killed at any effect', () => {
  it('is followed by one that ends what it began, the same way: a share of the crash matrix', async () => {
    const results = await crashMatrix({ lanes: 3, share });
    expect(results.filter((result) => result.outcome === 'failed')).toEqual([]);
    expect(results.filter((result) => result.point !== 'none').length).toBe(share.kills);
  }, 240_000);
});

describe('a worker told to stop at any effect', () => {
  it('C18 C23 hands on what it did, or the rollback of it, and burns no attempt: a share of the matrix', async () => {
    const stops = { kills: 4, seed: 23 };
    const results = await crashMatrix({ lanes: 2, share: stops, only: 'told to stop' });
    expect(results.filter((result) => result.outcome === 'failed')).toEqual([]);
    expect(results.filter((result) => result.point !== 'none').length).toBe(stops.kills);
  }, 240_000);
});
