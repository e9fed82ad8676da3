import { expect, it } from 'vitest';
import type { InstanceRecord } from '../../../src/inventory/types.ts';
import { acceptGeneration } from '../../../src/jobs/accept.ts';
import type { JobContext } from '../../../src/jobs/context.ts';

it('a rollback whose profile is gone since goes on with what was accepted: the first failure survives (I15)', async () => {
  const context = { recipes: { find: () => expect.fail('the profile was asked for') } } as unknown as JobContext;
  // Its Pod was removed already, and the intent with it.
  const record = { state: 'rolling_back', app: '', profile: 'gone', snapshot: 'x', generation: 1, stages: [], creates: {} };
  expect(await acceptGeneration(context, record as unknown as InstanceRecord)).toEqual({});
});
