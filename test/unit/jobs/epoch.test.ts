import { expect, it } from 'vitest';
import { compareEpochs } from '../../../src/jobs/epoch.ts';

it.each([
  ['the same', { epoch: 'a', seq: 3 }, 'ok'],
  ['nothing in Redis', undefined, 'lost'],
  ['another epoch', { epoch: 'b', seq: 3 }, 'lost'],
  ['an old copy of Redis', { epoch: 'a', seq: 2 }, 'lost'],
  ['a crash between the write to the cluster and the one to Redis', { epoch: 'a', seq: 2, next: 3 }, 'ok'],
] as const)('%s → %s', (_name, inRedis, verdict) => {
  expect(compareEpochs(inRedis, { epoch: 'a', seq: 3 })).toBe(verdict);
});
