import { expect, it } from 'vitest';
import { healthAfter } from '../../../src/jobs/sweeps/health.ts';

const stopped = (code?: string) => (code === undefined ? {} : { stopped: { code, message: 'm' } });
const open = { succeededAt: 5, breakerOpen: true };
const closed = { succeededAt: 5, breakerOpen: false };

it.each([
  ['nothing stopped it', closed, [undefined, undefined], { succeededAt: 9, breakerOpen: false }],
  ['nothing stopped it any more', open, [undefined], { succeededAt: 9, breakerOpen: false }],
  ['the breaker stopped it on one cluster', closed, [undefined, 'mass_delete_refused'], { succeededAt: 5, breakerOpen: true }],
  ['one cluster could not be read', closed, [undefined, 'permission_denied'], { succeededAt: 5, breakerOpen: false }],
  ['one cluster could not be read, the breaker was open', open, ['cluster_unreachable'], { succeededAt: 5, breakerOpen: true }],
])('after a pass where %s', (_name, before, codes, after) => {
  expect(healthAfter(before, codes.map(stopped), 9)).toEqual(after);
});
