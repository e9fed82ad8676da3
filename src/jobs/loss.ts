import { errorBody, WindlassError } from '../errors.ts';
import type { WriteOptions } from '../inventory/port.ts';
import type { InstanceRecord } from '../inventory/types.ts';
import type { PodFinish } from '../kubernetes/pod-end.ts';
import type { PodLoss } from '../kubernetes/pod-loss.ts';

/** The one way by which `ready` becomes `lost`: what was seen stays with the record, since the Pod itself will not. */
export function lossWrite(record: InstanceRecord, loss: PodLoss, at: number): WriteOptions & { readonly state: 'lost' } {
  const { code, message, evidence } = loss;
  const error = new WindlassError(code, message, {
    hint: '`windlass reconnect` builds it again on its workspace, if that is a claim.',
  });
  const failure = {
    ...errorBody(error),
    stage: 'ready',
    generation: record.generation,
    run: record.run,
    evidence,
    attemptsLeft: 0,
    at,
  };
  return { state: 'lost', set: { agent: null, failure }, events: [{ type: 'lost', code, message, evidence }] };
}

/** True while no run has begun with what was lost (each forgets the stages of the one that was ready), and nobody wants it gone. */
export const isUntouchedLoss = ({ state, intent, stages }: Pick<InstanceRecord, 'state' | 'intent' | 'stages'>): boolean =>
  state === 'lost' && intent === 'present' && stages.length > 0 && stages.every((stage) => stage.state === 'done');

interface Times {
  /** Redis ms. */
  readonly now: number;
  readonly finishedSeconds: number;
}

/** What ran to its end stays `ready`, with its exit code, for as long as finished instances are kept; never longer than agreed. */
export function finishWrite(
  record: Pick<InstanceRecord, 'expiresAt'>,
  { exitCode, reason }: PodFinish,
  { now, finishedSeconds }: Times,
): Pick<WriteOptions, 'set' | 'events'> {
  const kept = now + finishedSeconds * 1000;
  const expiresAt = record.expiresAt > 0 ? Math.min(record.expiresAt, kept) : kept;
  return { set: { exitCode, expiresAt }, events: [{ type: 'command.exited', exitCode, ...(reason === '' ? {} : { reason }) }] };
}
