import type { Remedy, SweepEntry } from '../context.ts';

export interface Sighting {
  /** The pass before this one saw it as a candidate too. */
  readonly before: boolean;
  readonly ageSeconds: number;
}

export type Verdict = Pick<SweepEntry, 'rule' | 'verdict' | 'evidence'>;

export const keep = (rule: string, evidence: Verdict['evidence'] = {}): Verdict => ({ rule, verdict: 'keep', evidence });

/** Acted on only past the grace age and when the pass before saw it too (I21); until then it is watched. */
export function due(
  remedy: Remedy,
  rule: string,
  evidence: Verdict['evidence'],
  { sighting, graceSeconds }: { readonly sighting: Sighting; readonly graceSeconds: number },
): Verdict {
  const { ageSeconds, before } = sighting;
  const found = { ...evidence, ageSeconds, graceSeconds };
  if (ageSeconds < graceSeconds) return { rule, verdict: 'watch', evidence: { ...found, waitsFor: 'grace' } };
  if (!before) return { rule, verdict: 'watch', evidence: { ...found, waitsFor: 'second sighting' } };
  return { rule, verdict: remedy, evidence: found };
}

/** True when so many deletions are suspicious in themselves (I22). */
export function breakerTrips(
  candidates: number,
  objects: number,
  limits: { readonly minCandidates: number; readonly maxFraction: number },
): boolean {
  return candidates > Math.max(limits.minCandidates, limits.maxFraction * objects);
}
