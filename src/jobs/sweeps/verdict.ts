import type { V1ObjectMeta } from '@kubernetes/client-node';
import type { InstanceRecord, Tombstone } from '../../inventory/types.ts';
import { keys } from '../../kubernetes/ownership.ts';
import type { SweepEntry } from '../context.ts';

export interface Sighting {
  /** The pass before this one saw it as a candidate too. */
  readonly before: boolean;
  readonly ageSeconds: number;
}

export interface OrphanFacts {
  readonly meta: V1ObjectMeta;
  readonly kind: 'pods' | 'persistentvolumeclaims';
  readonly record: InstanceRecord | undefined;
  readonly tombstone: Tombstone | undefined;
  readonly sighting: Sighting;
  readonly graceSeconds: number;
}

export type Verdict = Pick<SweepEntry, 'rule' | 'verdict' | 'evidence'>;

/**
 * What an object of ours is that the inventory was asked about. Only what is provably nobody's is deleted: a doubt
 * keeps it (I20), and a deletion needs an age past the grace and a second sighting (I21), unless its tombstone says so.
 */
export function judgeOrphan(facts: OrphanFacts): Verdict {
  const { meta, kind, record, tombstone } = facts;
  const annotations = meta.annotations ?? {};
  const generation = Number(annotations[keys.generation] ?? Number.NaN);
  const keep = (rule: string, evidence: Verdict['evidence'] = {}): Verdict => ({ rule, verdict: 'keep', evidence });
  if (!Number.isFinite(generation) || annotations[keys.nonce] === undefined)
    return { rule: 'not_made_by_us', verdict: 'foreign', evidence: {} };
  if (meta.deletionTimestamp !== undefined) return keep('being_deleted');
  if (record !== undefined) {
    if (belongs(record, kind, meta)) return keep('recorded', { state: record.state });
    if (record.state === 'launching' || record.state === 'requested') return keep('launch_under_way', { state: record.state });
    return due(facts, 'not_in_the_record', { state: record.state, generation, recordGeneration: record.generation });
  }
  if (tombstone !== undefined && generation <= tombstone.generation) {
    return { rule: 'of_a_gone_instance', verdict: 'delete', evidence: { generation, tombstoneGeneration: tombstone.generation } };
  }
  if (kind === 'persistentvolumeclaims' && annotations[keys.retained] === 'true') return keep('retained');
  return due(facts, 'no_record', { generation });
}

function belongs(record: InstanceRecord, kind: OrphanFacts['kind'], meta: V1ObjectMeta): boolean {
  const intent = record.creates[kind];
  const recorded = kind === 'pods' ? record.pod?.uid : record.workspace?.claimUid;
  return recorded === meta.uid || intent?.uid === meta.uid || intent?.nonce === meta.annotations?.[keys.nonce];
}

function due(facts: OrphanFacts, rule: string, evidence: Verdict['evidence']): Verdict {
  const { ageSeconds, before } = facts.sighting;
  const found = { ...evidence, ageSeconds, graceSeconds: facts.graceSeconds };
  if (ageSeconds < facts.graceSeconds) return { rule, verdict: 'watch', evidence: { ...found, waitsFor: 'grace' } };
  if (!before) return { rule, verdict: 'watch', evidence: { ...found, waitsFor: 'second sighting' } };
  return { rule, verdict: 'delete', evidence: found };
}

/** True when so many deletions are suspicious in themselves (I22). */
export function breakerTrips(
  candidates: number,
  objects: number,
  limits: { readonly minCandidates: number; readonly maxFraction: number },
): boolean {
  return candidates > Math.max(limits.minCandidates, limits.maxFraction * objects);
}
