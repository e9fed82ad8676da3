import type { PendingJob } from '../inventory/port.ts';
import { jobReference } from '../jobs/catalog.ts';
import type { JobContext } from '../jobs/context.ts';
import { teardown } from '../jobs/teardown.ts';

/** How long a removal rests that could not be ended, when its exit does not say. */
const restMs = 5000;

/**
 * Removals that the queue cannot take because Redis is full: they free memory, and every script of theirs is allowed to
 * run without any, so they are done straight from their pending entry. Resolves with true when the removal has ended.
 */
export function createRemovalsWithoutQueue(
  context: Omit<JobContext, 'job' | 'signal'>,
  signal: AbortSignal,
): (job: PendingJob) => Promise<boolean> {
  // A second start in this process would take the instance away from the first; one that waits is not asked again at once.
  const restingUntil = new Map<string, number>();
  return async (job) => {
    if (signal.aborted || (restingUntil.get(job.jobId) ?? 0) > Date.now()) return false;
    restingUntil.set(job.jobId, Number.POSITIVE_INFINITY);
    let rest = restMs;
    try {
      const exit = await teardown({ ...context, job, signal }, jobReference.parse(job.data));
      context.log.info({ queue: job.queue, job: job.jobId, exit: exit.kind }, 'removal done without the queue');
      if (exit.kind === 'wait') rest = exit.delayMs;
      if (exit.kind === 'failed') rest = exit.retryAfterMs ?? 60_000;
      return exit.kind === 'done';
    } finally {
      restingUntil.set(job.jobId, Date.now() + rest);
    }
  };
}
