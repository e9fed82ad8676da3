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
