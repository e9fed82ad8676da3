import { type ConnectionOptions, Queue } from 'bullmq';
import { effect } from '../effects.ts';
import type { JobRef, PendingJob } from '../inventory/port.ts';
import type { JobState } from '../jobs/context.ts';

export const queueNames = ['launch', 'teardown', 'sweep'] as const;
export type QueueName = (typeof queueNames)[number];
export type Queues = Readonly<Record<QueueName, Queue>>;

/** BullMQ's prefix of a queue: one hash tag each, so that Redis Cluster keeps all keys of a queue in one slot. */
export const queuePrefix = (prefix: string, installation: string, name: QueueName): string =>
  `{${prefix}:${installation}:${name}}`;

/** What stays visible of finished jobs: enough to look at, bounded by count and age (C73). */
const retained = { removeOnComplete: { count: 1000, age: 86_400 }, removeOnFail: { count: 5000, age: 604_800 } };

export function openQueues(connection: ConnectionOptions, prefix: string, installation: string): Queues {
  const open = (name: QueueName) =>
    new Queue(name, {
      connection,
      prefix: queuePrefix(prefix, installation, name),
      skipWaitingForReady: true,
      // Its own look at the server prints a warning beside our error; `checkRedis` looks at more, and refuses. Not for
      // workers: without it they would take Redis for an old one, and wake only at full seconds.
      skipVersionCheck: true,
      defaultJobOptions: {
        ...retained,
        attempts: 1_000_000,
        backoff: { type: 'windlass' },
        stackTraceLimit: 3,
        keepLogs: 200,
        sizeLimit: 262_144,
      },
    });
  const queues = { launch: open('launch'), teardown: open('teardown'), sweep: open('sweep') };
  // The connection's errors: each call that they break rejects by itself. Without a listener BullMQ prints them over stderr.
  for (const queue of Object.values(queues)) queue.on('error', () => undefined);
  return queues;
}

/** Adds a job under its id; a no-op when the id is there already, so that it can be repeated after any crash. */
export async function addJob(queues: Queues, job: PendingJob): Promise<void> {
  await effect('queue.add', job.jobId, async () => {
    await queues[job.queue].add(job.name, job.data, { jobId: job.jobId, priority: job.priority });
  });
}

export async function jobState(queues: Queues, job: JobRef): Promise<JobState> {
  const state = await queues[job.queue].getJobState(job.jobId);
  if (state === 'unknown') return 'missing';
  return state === 'completed' || state === 'failed' ? 'ended' : 'open';
}

export interface FailedJob {
  readonly queue: QueueName;
  readonly jobId: string;
  readonly data: Readonly<Record<string, unknown>>;
  readonly reason: string;
  /** Epoch ms. */
  readonly failedAt: number;
}

/** All jobs that failed for good and are still kept. */
export async function failedJobs(queues: Queues): Promise<FailedJob[]> {
  const found = await Promise.all(
    queueNames.map(async (queue) =>
      // A job whose record was removed while the list was read has no data.
      (await queues[queue].getFailed()).filter(Boolean).map((job) => ({
        queue,
        jobId: job.id ?? '',
        data: (job.data ?? {}) as Record<string, unknown>,
        reason: job.failedReason,
        failedAt: job.finishedOn ?? job.timestamp,
      })),
    ),
  );
  return found.flat();
}

/** Takes a failed job out of its queue; one that is gone already is fine. */
export async function forgetJob(queues: Queues, job: FailedJob): Promise<void> {
  await effect('queue.remove', job.jobId, () => queues[job.queue].remove(job.jobId));
}

/** Back to waiting under its own id: for jobs that no record speaks for. False = it is gone, or no failed one any more. */
export async function retryJob(queues: Queues, { queue, jobId }: FailedJob): Promise<boolean> {
  const job = await queues[queue].getJob(jobId);
  if (job === undefined) return false;
  try {
    await effect('queue.retry', jobId, () => job.retry('failed'));
    return true;
  } catch (error) {
    if (await job.isFailed()) throw error;
    return false;
  }
}

export async function closeQueues(queues: Queues): Promise<void> {
  await Promise.all(Object.values(queues).map((queue) => queue.close()));
}
