import type { BeginAnswer } from '../inventory/port.ts';
import type { InstanceRecord } from '../inventory/types.ts';
import { instanceKey, type JobContext } from './context.ts';
import { type Exit, longestWaitMs } from './exit.ts';

/** `throttled` = new launches are held back as a whole. */
type Reason = Extract<BeginAnswer, { kind: 'wait' }>['reason'] | 'throttled';

/** Who waits because new launches are held back; all of them are woken together. */
export const pressureKey = 'pressure';

function keysOf(record: InstanceRecord, reason: Reason): string[] {
  if (reason === 'lease_held') return [`lease:${record.hash}`, instanceKey(record)];
  if (reason === 'owner_limit') return [`owner:${record.owner}`, instanceKey(record)];
  if (reason === 'cluster_saturated') return [`cluster:${record.cluster}`, 'global', instanceKey(record)];
  if (reason === 'throttled') return [pressureKey, instanceKey(record)];
  return [instanceKey(record)];
}

/**
 * A begin that was told to wait: registers the waiter, then asks again once, so that what ended between the answer and
 * the registration is not slept through. `again` undefined = the caller has no second question.
 */
export async function waitForBegin(
  context: JobContext,
  record: InstanceRecord,
  reason: Reason,
  again?: () => Promise<BeginAnswer>,
): Promise<Exit> {
  const keys = keysOf(record, reason);
  const ticket = await context.inventory.registerWait(context.job, keys);
  const left = Math.max(200, record.deadlineAt - (await context.inventory.now()));
  return {
    kind: 'wait',
    reason,
    delayMs: Math.min(longestWaitMs, left),
    keys,
    ticket,
    ready: async () => {
      if (again === undefined) return false;
      const answer = await again();
      if (answer.kind === 'ok') await answer.lease.release();
      return answer.kind !== 'wait';
    },
  };
}
