import type { InstanceRecord } from '../inventory/types.ts';

/**
 * True when this run goes on from an instance that was ready before. Its Pod and its claim hold somebody's work: they are
 * looked for exactly (by UID), never made anew in silence, and no rollback of this run removes them (I13).
 */
export function resumes(record: InstanceRecord): boolean {
  if (record.state === 'ready' || record.state === 'lost') return true;
  return record.before === 'lost' && ['launching', 'rolling_back', 'cleanup_pending'].includes(record.state);
}

/** True once this very run has begun to make a Pod in the place of a lost one. */
export const rebuilds = (record: InstanceRecord): boolean => resumes(record) && record.creates.pods?.run === record.run;

/** How a run that resumes found the Pod, kept as the checkpoint of stage pod so that any worker goes on alike. */
export const podKept = 'pod_kept';
export const podRestarted = 'pod_restarted';

/** The container that was worked with last still runs: it has its marker, its token and its instance. */
export const foundAsLeft = (record: InstanceRecord): boolean => checkpointOf(record, 'pod') === podKept;

export const checkpointOf = (record: InstanceRecord, stage: string): string | undefined =>
  record.stages.find(({ name }) => name === stage)?.checkpoint;

/** For the event: what became of the Pod. */
export function howResumed(record: InstanceRecord): 'kept' | 'restarted' | 'rebuilt' {
  if (rebuilds(record)) return 'rebuilt';
  return foundAsLeft(record) ? 'kept' : 'restarted';
}
