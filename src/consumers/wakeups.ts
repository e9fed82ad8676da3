import { Job } from 'bullmq';
import { asWindlassError, WindlassError } from '../errors.ts';
import type { JobRef, PendingJob } from '../inventory/port.ts';
import { isOutOfMemory } from '../inventory/redis-error.ts';
import type { JobContext } from '../jobs/context.ts';
import { pressureKey } from '../jobs/waiting.ts';
import { addJob, type Queues } from '../producers/queue.ts';
import { promoteFirst } from './disposition.ts';
import { podSignature } from './pod-signature.ts';
import { createRemovalsWithoutQueue } from './without-queue.ts';

export interface Wakeups {
  stop(): Promise<void>;
}

type Shared = Omit<JobContext, 'job' | 'signal'>;

interface WakeupOptions extends Shared {
  readonly queues: Queues;
  /** Does a removal that a full Redis has no queue entry for; true when it has ended. */
  readonly removeWithoutQueue: (job: PendingJob) => Promise<boolean>;
}

/** An entry that stays pending this long lost its producer between the script and the add. */
const pendingMs = 2000;
/** A waiter that was claimed this long ago and has not begun: whoever claimed it may have died before promoting it. */
const claimedMs = 2000;
/** Waiters claimed in one script where all are woken: as many as one worker promotes in the time that a claim may take. */
const batch = 100;
/** A freed limit lets in as many as slots freed; one at a time, each end frees one. */
const perWake = 1;

/**
 * Any worker wakes any job: a bumped key (pub/sub, a hint) or a changed Pod (the shared watch) claims its waiters in one
 * script, so that one worker promotes each. A claim whose worker died is seen by every other's next look, a second apart;
 * what a lost hint misses, the job's own delay finds (at most 30 s).
 */
export async function startWakeups(context: Shared, queues: Queues): Promise<Wakeups> {
  const { inventory, log } = context;
  const ending = new AbortController();
  const options: WakeupOptions = { ...context, queues, removeWithoutQueue: createRemovalsWithoutQueue(context, ending.signal) };
  const inFlight = new Set<Promise<unknown>>();
  const run = (what: string, work: Promise<unknown>) => {
    const settled = work.catch((error: unknown) =>
      log.warn({ code: asWindlassError(error).code, err: String(error) }, `${what} failed`),
    );
    inFlight.add(settled);
    void settled.finally(() => inFlight.delete(settled));
  };
  const stopListening = await inventory.onWake((key) => run('waking', wake(options, key)));
  const stopWatching = watchPods(options, (hash) => run('waking', inventory.wake([`inst:${hash}`])));
  const timer = setInterval(() => {
    run('re-adding pending jobs', readdPending(options));
    run('promoting claimed jobs', promoteClaimed(options));
  }, 1000);
  return {
    async stop() {
      clearInterval(timer);
      ending.abort(new WindlassError('interrupted'));
      stopWatching();
      await stopListening();
      await Promise.all(inFlight);
    },
  };
}

async function wake({ inventory, queues }: WakeupOptions, key: string): Promise<void> {
  const everybody = key === pressureKey || key.startsWith('inst:') || key.startsWith('lease:');
  if (everybody) {
    for (;;) {
      const waiters = await inventory.claimWaiters(key, batch);
      for (const waiter of waiters) await promote(queues, waiter);
      if (waiters.length < batch) return;
    }
  }
  // A freed slot is for a job that is there: one that was removed from its queue meanwhile must not swallow the wake-up.
  for (;;) {
    const [waiter] = await inventory.claimWaiters(key, perWake);
    if (waiter === undefined || (await promote(queues, waiter))) return;
  }
}

/** False when there is no such job any more. */
async function promote(queues: Queues, waiter: JobRef): Promise<boolean> {
  const job = await Job.fromId(queues[waiter.queue], waiter.jobId);
  // Not yet delayed: its own worker looks at the wake number right after the move and promotes it (design §4).
  if (job !== undefined && (await job.isDelayed())) await promoteFirst(job);
  return job !== undefined;
}

async function promoteClaimed({ inventory, queues }: WakeupOptions): Promise<void> {
  for (const waiter of await inventory.staleClaims(claimedMs)) {
    const job = await Job.fromId(queues[waiter.queue], waiter.jobId);
    const state = await job?.getState();
    // Its own worker has not put it to sleep yet: it may die before it looks whether it is awake already.
    if (state === 'active') continue;
    if (job !== undefined && state === 'delayed') await promoteFirst(job);
    // It is on its way, however long the backlog: nobody has to look again.
    await inventory.clearClaim(waiter);
  }
}

/** Only changes that a judgement could depend on are worth a script: most status writes are not. */
function watchPods({ clusters }: WakeupOptions, changed: (hash: string) => void): () => void {
  const seen = new Map<string, string>();
  const stops = clusters.names().map((name) =>
    clusters.get(name).pods.onChange(({ name: pod, pod: object }) => {
      const key = `${name}/${pod}`;
      const signature = object === undefined ? undefined : podSignature(object);
      if (seen.get(key) === signature) return;
      if (signature === undefined) seen.delete(key);
      else seen.set(key, signature);
      const hash = /^windlass-([0-9a-f]{20})$/.exec(pod)?.[1];
      if (hash !== undefined) changed(hash);
    }),
  );
  return () => {
    for (const stop of stops) stop();
  };
}

async function readdPending(options: WakeupOptions): Promise<void> {
  const { inventory, log } = options;
  const stale = await inventory.stalePending(pendingMs);
  const added = await Promise.all(stale.map((job) => addAgain(options, job)));
  for (const [at, job] of stale.entries()) {
    if (!added[at]) continue;
    await inventory.clearPending(job.jobId);
    log.info({ queue: job.queue, job: job.jobId }, 'pending job added again');
  }
}

async function addAgain(options: WakeupOptions, job: PendingJob): Promise<boolean> {
  try {
    await addJob(options.queues, job);
    return true;
  } catch (error) {
    if (job.queue !== 'teardown' || !isOutOfMemory(error)) throw error;
    return options.removeWithoutQueue(job);
  }
}
