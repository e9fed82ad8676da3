import type { V1ObjectMeta } from '@kubernetes/client-node';
import { describe, expect, it } from 'vitest';
import type { InstanceRecord } from '../../../src/inventory/types.ts';
import { judgeOrphan, type OrphanFacts } from '../../../src/jobs/sweeps/orphans.ts';
import { breakerTrips } from '../../../src/jobs/sweeps/verdict.ts';
import { keys } from '../../../src/kubernetes/ownership.ts';

const meta = (extra: Partial<V1ObjectMeta> = {}, annotations: Record<string, string> = {}): V1ObjectMeta => ({
  name: `windlass-${'a'.repeat(20)}`,
  uid: 'uid-1',
  annotations: { [keys.nonce]: 'n1', [keys.generation]: '100', ...annotations },
  ...extra,
});
const record = (fields: Partial<InstanceRecord>): InstanceRecord =>
  ({ generation: 100, state: 'ready', creates: {}, pod: null, workspace: null, ...fields }) as InstanceRecord;
const facts = (fields: Partial<OrphanFacts>): OrphanFacts => ({
  meta: meta(),
  kind: 'pods',
  record: undefined,
  tombstone: undefined,
  sighting: { before: true, ageSeconds: 1000 },
  graceSeconds: 600,
  ...fields,
});
const tombstone = { instanceId: 'i', owner: 'o', generation: 100, goneAt: 0 };
const pod = { name: 'p', uid: 'uid-1', node: '', ip: '', createdByGeneration: 100 };
const intent = { kind: 'pods', name: 'p', nonce: 'n1', generation: 100, sentAt: 1, open: true } as const;

describe('the verdict on an object of ours', () => {
  it.each<[string, Partial<OrphanFacts>, string, string]>([
    ['without our annotations', { meta: { uid: 'u' } }, 'foreign', 'not_made_by_us'],
    ['being deleted', { meta: meta({ deletionTimestamp: new Date() }) }, 'keep', 'being_deleted'],
    ['recorded by uid', { record: record({ pod }) }, 'keep', 'recorded'],
    ['sent but not yet answered', { record: record({ state: 'launching', creates: { pods: intent } }) }, 'keep', 'recorded'],
    ['of a launch under way', { record: record({ state: 'launching' }) }, 'keep', 'launch_under_way'],
    ['of another generation of a live record', { record: record({ generation: 200 }) }, 'delete', 'not_in_the_record'],
    ['of a gone instance, at once', { tombstone, sighting: { before: false, ageSeconds: 0 } }, 'delete', 'of_a_gone_instance'],
    [
      'newer than the tombstone',
      { tombstone: { ...tombstone, generation: 99 }, sighting: { before: false, ageSeconds: 0 } },
      'watch',
      'no_record',
    ],
    ['kept on purpose', { kind: 'persistentvolumeclaims', meta: meta({}, { [keys.retained]: 'true' }) }, 'keep', 'retained'],
    ['without a record, too young', { sighting: { before: true, ageSeconds: 599 } }, 'watch', 'no_record'],
    ['without a record, seen once', { sighting: { before: false, ageSeconds: 1000 } }, 'watch', 'no_record'],
    ['without a record, old and seen twice', {}, 'delete', 'no_record'],
  ])('%s', (_name, given, verdict, rule) => {
    expect(judgeOrphan(facts(given))).toMatchObject({ verdict, rule });
  });
});

it('the breaker trips above both of its limits only', () => {
  const limits = { minCandidates: 10, maxFraction: 0.2 };
  expect(breakerTrips(10, 10, limits)).toBe(false);
  expect(breakerTrips(11, 11, limits)).toBe(true);
  expect(breakerTrips(20, 100, limits)).toBe(false);
  expect(breakerTrips(21, 100, limits)).toBe(true);
});
