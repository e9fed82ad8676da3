import { expect, it } from 'vitest';
import { soak } from '../support/soak/soak.ts';

/** `npm run soak` does more of it, and for longer. */
it('a few lives under kills, pauses and restarts of Redis lose, leak, double and tell nothing', async () => {
  const report = await soak({
    launches: 4,
    // Draws a teardown right behind a launch, a launch that tells its secret and fails, two plain ones; a kill, then Redis.
    seed: 14,
    concurrency: 4,
    workers: 2,
    faultRate: 0.03,
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
  expect(report.launches).toBe(4);
  expect(report.troubles.kill).toBeGreaterThan(0);
}, 300_000);
