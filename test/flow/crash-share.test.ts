import { describe, expect, it } from 'vitest';
import { crashMatrix } from '../support/chaos/matrix.ts';
import { startCluster } from '../support/cluster.ts';

/** `npm run chaos` does them all. */
const share = { scenarios: 3, kills: 6, seed: 20 };

describe('a worker killed at any effect', () => {
  it('is followed by one that ends what it began, the same way: a share of the crash matrix', async () => {
    const cluster = await startCluster();
    try {
      const options = { kubeconfig: cluster.kubeconfig, namespace: 'default', image: 'node:24' };
      const results = await crashMatrix({ ...options, lanes: 3, share });
      expect(results.filter((result) => result.outcome === 'failed')).toEqual([]);
      expect(results.filter((result) => result.outcome === 'passed').length).toBeGreaterThan(share.kills / 2);
    } finally {
      await cluster.close();
    }
  }, 240_000);
});
