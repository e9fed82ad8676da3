import { errorBody, WindlassError } from '../errors.ts';
import type { WriteOptions } from '../inventory/port.ts';
import type { InstanceRecord } from '../inventory/types.ts';
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
