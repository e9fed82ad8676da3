import { type ConnectionOptions, type Job, Worker } from 'bullmq';
import { within } from '../clock.ts';
import { asWindlassError, WindlassError } from '../errors.ts';
import type { JobContext } from '../jobs/context.ts';
import type { Exit } from '../jobs/exit.ts';
import { type QueueName, queuePrefix } from '../producers/queue.ts';
import { RetryLater, settle } from './disposition.ts';
import { runHandler } from './handlers.ts';

/** The same on every worker: one with other values would slow the recovery of all (libraries §1.7; tried, design §4). */
const timing = { lockDuration: 4000, stalledInterval: 1000, maxStalledCount: 20 };

export interface ConsumerOptions {
  readonly queue: QueueName;
  readonly connection: ConnectionOptions;
  readonly prefix: string;
  readonly installation: string;
  readonly concurrency: number;
  readonly name: string;
  readonly context: Omit<JobContext, 'job' | 'signal'>;
}

export interface Consumer {
  readonly queue: QueueName;
  /** Epoch ms of the last sign of progress: a job taken or ended, or the queue found empty. */
  lastProgress(): number;
  running(): number;
  /** Takes no more jobs, hands running ones back at their checkpoint, and ends within `graceMs` whatever Redis does. */
  drain(graceMs: number): Promise<void>;
}

/** One queue's jobs into handlers and out again: parse → handler → disposition. Generic over what the job is. */
export function startConsumer(options: ConsumerOptions): Consumer {
  const { context, queue } = options;
  let progressAt = Date.now();
  const running = new Set<string>();
  let draining = false;
  const process = async (job: Job, token: string | undefined, signal: AbortSignal | undefined) => {
    const id = job.id ?? '';
    progressAt = Date.now();
    running.add(id);
    try {
      // Fetched while the drain began: cancelAllJobs did not see it yet.
      if (draining) return await settle(job, token ?? '', exitOf(new WindlassError('interrupted')), context.inventory);
      const exit = await attempt(options, job, signal ?? new AbortController().signal);
      return await settle(job, token ?? '', exit, context.inventory);
    } finally {
      running.delete(id);
      progressAt = Date.now();
    }
  };
  // Exactly three plain parameters: with fewer, BullMQ passes no signal (libraries §1.6).
  const worker = new Worker(queue, (job, token, signal) => process(job, token, signal), {
    connection: options.connection,
    prefix: queuePrefix(options.prefix, options.installation, queue),
    concurrency: options.concurrency,
    name: options.name,
    metrics: { maxDataPoints: 60 * 24 },
    settings: { backoffStrategy: (_attempts, _type, error) => (error instanceof RetryLater ? error.retryAfterMs : 5000) },
    ...timing,
  });
  // A lost lock does not stop the processor by itself (libraries §1.7): another worker may be on the job already.
  worker.on('lockRenewalFailed', (ids) => {
    for (const id of ids) worker.cancelJob(id, 'lease_lost');
  });
  worker.on('drained', () => {
    progressAt = Date.now();
  });
  worker.on('error', (error) => context.log.warn({ queue, err: error.message }, 'queue connection trouble'));
  return {
    queue,
    lastProgress: () => progressAt,
    running: () => running.size,
    drain(graceMs) {
      draining = true;
      return drain(worker, graceMs);
    },
  };
}

async function attempt(options: ConsumerOptions, job: Job, signal: AbortSignal): Promise<Exit> {
  const { context, queue } = options;
  const startedAt = performance.now();
  try {
    const exit = await runHandler({ ...context, job: { queue, jobId: job.id ?? '' }, signal: named(signal) }, queue, job);
    context.log.info(
      { queue, job: job.id, exit: exit.kind, ...about(exit), ms: Math.round(performance.now() - startedAt) },
      'job attempt',
    );
    return exit;
  } catch (thrown) {
    const error = asWindlassError(signal.aborted ? reasonOf(signal) : thrown);
    context.log.warn({ queue, job: job.id, code: error.code, err: error }, 'job attempt broke off');
    return exitOf(error);
  }
}

/** An error that no handler turned into an exit (Redis away, a bug): retried, or ended, by its class. */
function exitOf(error: WindlassError): Exit {
  const { disposition } = error.row;
  if (disposition === 'yielded') return { kind: 'yielded', error, again: error.code !== 'superseded' };
  const final = disposition === 'terminal' || disposition === 'caller' || disposition === 'bug';
  return { kind: 'failed', error, retryAfterMs: final ? undefined : 2000 };
}

function about(exit: Exit): object {
  if (exit.kind === 'wait') return { reason: exit.reason, delayMs: Math.round(exit.delayMs) };
  if (exit.kind === 'done') return { state: exit.result.state };
  return { code: exit.error.code };
}

/** BullMQ's reasons are plain texts; ours are errors with a code. */
function reasonOf(signal: AbortSignal): WindlassError {
  if (signal.reason instanceof WindlassError) return signal.reason;
  return new WindlassError(
    String((signal.reason as Error | undefined)?.message ?? signal.reason).includes('interrupted') ? 'interrupted' : 'lease_lost',
  );
}

function named(signal: AbortSignal): AbortSignal {
  const own = new AbortController();
  if (signal.aborted) own.abort(reasonOf(signal));
  else signal.addEventListener('abort', () => own.abort(reasonOf(signal)), { once: true });
  return own.signal;
}

/** close() alone waits for running jobs for ever, and never resolves while Redis is down (libraries §0.4). */
async function drain(worker: Worker, graceMs: number): Promise<void> {
  const closed = worker.close();
  worker.cancelAllJobs('interrupted');
  const done = await within(
    closed.then(() => true),
    graceMs,
  );
  if (!done) await within(worker.close(true), 1000);
}
