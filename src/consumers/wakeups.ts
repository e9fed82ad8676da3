import { Job } from 'bullmq';
import { asWindlassError } from '../errors.ts';
import type { Inventory } from '../inventory/port.ts';
import type { Log } from '../jobs/context.ts';
import type { Clusters } from '../kubernetes/port.ts';
import { addJob, type Queues } from '../producers/queue.ts';
import { promoteFirst } from './disposition.ts';
import { podSignature } from './pod-signature.ts';

export interface Wakeups {
  stop(): Promise<void>;
}

export interface WakeupOptions {
  readonly inventory: Inventory;
  readonly clusters: Clusters;
  readonly queues: Queues;
  readonly log: Log;
}

/** An entry that stays pending this long lost its producer between the script and the add. */
const pendingMs = 2000;
/** A freed limit lets in as many as slots freed; one at a time, each end frees one. */
const perWake = 1;

/**
 * Any worker wakes any job: a bumped key (pub/sub, a hint) or a changed Pod (the shared watch) claims its waiters in one
 * script, so that one worker promotes each. What a lost hint misses, the job's own delay finds (at most 30 s).
 */
export async function startWakeups(options: WakeupOptions): Promise<Wakeups> {
  const { inventory, log } = options;
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
  const timer = setInterval(() => run('re-adding pending jobs', readdPending(options)), 1000);
  return {
    async stop() {
      clearInterval(timer);
      stopWatching();
      await stopListening();
      await Promise.all(inFlight);
    },
  };
}

async function wake({ inventory, queues }: WakeupOptions, key: string): Promise<void> {
  const everybody = key.startsWith('inst:') || key.startsWith('lease:');
  const waiters = await inventory.claimWaiters(key, everybody ? 100 : perWake);
  for (const waiter of waiters) {
    const job = await Job.fromId(queues[waiter.queue], waiter.jobId);
    // Not yet delayed: its own worker looks at the wake number right after the move and promotes it (design §4).
    if (job !== undefined && (await job.isDelayed())) await promoteFirst(job);
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

async function readdPending({ inventory, queues, log }: WakeupOptions): Promise<void> {
  for (const job of await inventory.stalePending(pendingMs)) {
    await addJob(queues, job);
    await inventory.clearPending(job.jobId);
    log.info({ queue: job.queue, job: job.jobId }, 'pending job added again');
  }
}
