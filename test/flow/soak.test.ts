import { expect, it } from 'vitest';
import { soak } from '../support/soak/soak.ts';

/** `npm run soak` does more of it, and for longer. */
it('a few lives under kills, pauses and restarts of Redis lose, leak, double and tell nothing', async () => {
  const report = await soak({
    launches: 6,
    seed: 4,
    concurrency: 6,
    workers: 2,
    faultRate: 0.01,
    troubleEverySeconds: 2,
    patience: 120,
    told: () => undefined,
  });
  const { duplicates, leaked, lost, secretsFound, unexpected } = report;
  expect({ duplicates, leaked, lost, secretsFound, unexpected }).toEqual({
    duplicates: [],
    leaked: [],
    lost: [],
    secretsFound: [],
    unexpected: [],
  });
  expect(report.launches).toBe(6);
  expect(report.troubles.kill).toBeGreaterThan(0);
}, 300_000);
