import type { V1Pod } from '@kubernetes/client-node';
import { sleep } from '../clock.ts';
import type { Config } from '../config/schema.ts';
import { asWindlassError } from '../errors.ts';
import type { Inventory } from '../inventory/port.ts';
import type { Shelf } from '../inventory/shelf.ts';
import type { InstanceRecord, State } from '../inventory/types.ts';
import type { Log } from '../jobs/context.ts';
import { checkEpoch } from '../jobs/epoch.ts';
import { isUntouchedLoss } from '../jobs/loss.ts';
import { lookAfter } from '../jobs/lost.ts';
import { isOver } from '../kubernetes/pod-loss.ts';
import type { Cluster, Clusters } from '../kubernetes/port.ts';
import { askReconnect } from '../producers/again.ts';
import { addJob, type Queues } from '../producers/queue.ts';

export interface LossOptions {
  readonly config: Config;
  readonly inventory: Inventory;
  readonly shelf: Shelf;
  readonly clusters: Clusters;
  readonly queues: Queues;
  readonly log: Log;
}

export interface LossWatch {
  stop(): Promise<void>;
}

/** A node that dies takes all its Pods in one moment: looks at a time, of each worker. */
const atOnce = 16;
/** How soon something is looked at again that somebody else was at work on; doubled each time. */
const againMs = 250;
const againMaxMs = 10_000;
const page = 200;
/** How soon a loss is acted on that no change of a Pod tells of: written by a sweep, or by a worker that died over it. */
const overlookedMs = 10_000;

/**
 * Finds lost Pods of ready instances: from the shared watch as it happens, and once at the start for what happened while
 * no worker ran. Every worker looks; the lease decides which one writes.
 */
export function startLossWatch(options: LossOptions): LossWatch {
  const stop = new AbortController();
  const looks = createLooks(options, stop.signal);
  const stops = options.clusters.names().map((name) => watchCluster(options.clusters.get(name), looks.add));
  const scans = options.clusters.names().map((name) => scan(options, options.clusters.get(name), looks.add, stop.signal));
  const overlooked =
    options.config.recovery.onLost === 'rebuild' ? findOverlooked(options, looks.remind, stop.signal) : undefined;
  return {
    async stop() {
      stop.abort();
      for (const unsubscribe of stops) unsubscribe();
      await Promise.all([...scans, overlooked, looks.idle()]);
    },
  };
}

/** Losses that are written down and that nobody acted on, again and again. */
async function findOverlooked(options: LossOptions, remind: Remind, signal: AbortSignal): Promise<void> {
  const attempt = (work: () => Promise<void>) =>
    work().catch((error: unknown) => {
      if (!signal.aborted)
        options.log.warn({ code: asWindlassError(error).code, err: error }, 'losses that wait for a rebuild were not found out');
    });
  while (await pause(overlookedMs, signal)) {
    const found = new Map<string, string[]>();
    await attempt(async () => {
      for await (const record of listed(options.inventory, ['lost'], ['cluster', 'hash', 'state', 'intent', 'stages']))
        if (isUntouchedLoss(record)) found.set(record.cluster, [...(found.get(record.cluster) ?? []), record.hash]);
    });
    // One that cannot be asked keeps only its own losses waiting.
    for (const name of options.clusters.names())
      await attempt(() => remindAll(options, name, found.get(name) ?? [], remind, signal));
  }
}

async function remindAll(options: LossOptions, name: string, hashes: readonly string[], remind: Remind, signal: AbortSignal) {
  if (hashes.length === 0) return;
  const cluster = options.clusters.get(name);
  if ((await checkEpoch(cluster, options.shelf, options.config.installation, signal)) !== 'ok') return;
  for (const hash of hashes) remind(cluster, hash);
}

/** False when it was ended by the signal. */
const pause = (ms: number, signal: AbortSignal): Promise<boolean> =>
  sleep(ms, signal).then(
    () => true,
    () => false,
  );

async function* listed<K extends keyof InstanceRecord>(
  inventory: Inventory,
  states: readonly State[],
  fields: readonly K[],
): AsyncGenerator<Pick<InstanceRecord, K>> {
  let cursor: string | undefined;
  do {
    const asked = { states, limit: page, ...(cursor === undefined ? {} : { cursor }) };
    const found = await inventory.listFields(fields, asked);
    yield* found.items;
    cursor = found.nextCursor ?? undefined;
  } while (cursor !== undefined);
}

type Add = (cluster: Cluster, hash: string, tries?: number) => void;
type Remind = (cluster: Cluster, hash: string) => void;

/** Only what may be a loss or a restart is worth a read of the record. */
function watchCluster(cluster: Cluster, add: Add): () => void {
  const starts = new Map<string, string>();
  return cluster.pods.onChange(({ name, pod }) => {
    const hash = /^windlass-([0-9a-f]{20})$/.exec(name)?.[1];
    if (hash === undefined) return;
    const known = starts.get(name);
    const now = pod === undefined ? undefined : startsOf(pod);
    if (now === undefined) starts.delete(name);
    else starts.set(name, now);
    const restarted = known !== undefined && known !== '' && now !== known;
    if (pod === undefined || isOver(pod) || restarted || hasEnd(pod)) add(cluster, hash);
  });
}

/** Where nothing is started again, one container's end may be the result, while the others go on. */
const hasEnd = (pod: V1Pod): boolean =>
  pod.spec?.restartPolicy === 'Never' &&
  (pod.status?.containerStatuses ?? []).some(({ state }) => state?.terminated !== undefined);

const startsOf = (pod: V1Pod): string =>
  (pod.status?.containerStatuses ?? [])
    .map(({ containerID }) => containerID ?? '')
    .join(' ')
    .trim();

/** Records against the first list of Pods. A cluster that is not the one of this inventory is not judged (design §7). */
async function scan(options: LossOptions, cluster: Cluster, add: Add, signal: AbortSignal): Promise<void> {
  const { inventory, shelf, config, log } = options;
  try {
    await cluster.pods.ready(signal);
    const verdict = await checkEpoch(cluster, shelf, config.installation, signal);
    if (verdict !== 'ok')
      return log.error({ cluster: cluster.name, verdict }, 'ready instances are not compared with this cluster');
    // A loss that was written and never acted on: its worker died in between.
    const states = config.recovery.onLost === 'rebuild' ? (['ready', 'lost'] as const) : (['ready'] as const);
    for await (const record of listed(inventory, states, ['cluster', 'hash', 'pod'])) {
      if (signal.aborted) return;
      if (record.cluster === cluster.name && differs(cluster, record.pod)) add(cluster, record.hash);
    }
  } catch (error) {
    if (!signal.aborted)
      log.warn(
        { cluster: cluster.name, code: asWindlassError(error).code, err: error },
        'the comparison with the cluster at the start broke off',
      );
  }
}

/** Anything but the recorded container in the recorded Pod. */
function differs(
  cluster: Cluster,
  recorded: { readonly name: string; readonly uid: string; readonly main?: { readonly id: string } } | null,
): boolean {
  const pod = recorded === null ? undefined : cluster.pods.get(recorded.name);
  if (recorded === null || pod?.metadata?.uid !== recorded.uid || isOver(pod) || hasEnd(pod)) return true;
  return recorded.main !== undefined && !startsOf(pod).split(' ').includes(recorded.main.id);
}

/** Each instance is looked at once at a time, and again until there is nothing more to find out. */
function createLooks(options: LossOptions, signal: AbortSignal) {
  const waiting = new Map<string, Asked>();
  const running = new Map<string, Promise<void>>();
  // One for each instance: were every look that fails followed by one of its own, there would be ever more of them.
  const sleeping = new Map<string, NodeJS.Timeout>();
  const keyOf = (cluster: Cluster, hash: string) => `${cluster.name}/${hash}`;

  const add: Add = (cluster, hash, tries = 0) => {
    const key = keyOf(cluster, hash);
    clearTimeout(sleeping.get(key));
    sleeping.delete(key);
    waiting.set(key, { cluster, hash, tries });
    pump();
  };
  /** Not sooner than the look that is to come anyway. */
  const remind: Remind = (cluster, hash) => {
    const key = keyOf(cluster, hash);
    if (![waiting, running, sleeping].some((looks) => looks.has(key))) add(cluster, hash);
  };
  const later = ({ cluster, hash, tries }: Asked) => {
    const key = keyOf(cluster, hash);
    if (waiting.has(key)) return;
    const again = () => {
      if (!signal.aborted) add(cluster, hash, tries + 1);
    };
    sleeping.set(key, setTimeout(again, Math.min(againMs * 2 ** tries, againMaxMs)).unref());
  };
  const pump = () => {
    for (const [key, asked] of waiting) {
      if (signal.aborted || running.size >= atOnce) return;
      if (running.has(key)) continue;
      waiting.delete(key);
      const look = lookOnce(options, asked, later).finally(() => {
        running.delete(key);
        pump();
      });
      running.set(key, look);
    }
  };
  return { add, remind, idle: () => Promise.all(running.values()) };
}

interface Asked {
  readonly cluster: Cluster;
  readonly hash: string;
  readonly tries: number;
}

async function lookOnce(options: LossOptions, asked: Asked, later: (asked: Asked) => void): Promise<void> {
  const { cluster, hash } = asked;
  try {
    const look = await lookAfter(options, cluster, hash);
    if (look === 'again') later(asked);
    if (look === 'lost' && options.config.recovery.onLost === 'rebuild') await rebuild(options, hash);
  } catch (error) {
    // What cannot be read counts as alive (I20).
    options.log.warn(
      { instance: hash, code: asWindlassError(error).code, err: error },
      'a Pod could not be compared with its record; tried again',
    );
    later(asked);
  }
}

/** recovery.onLost: rebuild = as if somebody had asked for a reconnect at once. */
async function rebuild({ inventory, queues }: LossOptions, hash: string): Promise<void> {
  const record = await inventory.readByHash(hash);
  // Every worker that sees the loss asks, since the one that wrote it may have died: only the first finds it untouched.
  if (record === undefined || !isUntouchedLoss(record)) return;
  const answer = await askReconnect(inventory, record);
  if (!('job' in answer)) return;
  await addJob(queues, answer.job);
  await inventory.clearPending(answer.job.jobId);
}
