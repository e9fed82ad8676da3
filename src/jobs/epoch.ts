import { randomBytes } from 'node:crypto';
import type { V1ConfigMap } from '@kubernetes/client-node';
import { WindlassError } from '../errors.ts';
import type { Shelf } from '../inventory/shelf.ts';
import { isAlreadyExists } from '../kubernetes/api-error.ts';
import { sharedLabels } from '../kubernetes/ownership.ts';
import type { Cluster } from '../kubernetes/port.ts';
import { epochName } from '../names.ts';
import type { JobContext } from './context.ts';

/**
 * 'ok' = Redis and cluster belong together · 'lost' = Redis forgot, or is an old copy: nothing may be deleted on its word ·
 * 'other' = another cluster answers under this name: nothing may be judged there (design §7).
 */
export type EpochVerdict = 'ok' | 'lost' | 'other';

interface Epoch {
  readonly epoch: string;
  readonly seq: number;
  /** The seq that was about to be written to the cluster: a crash between the two writes must not look like a loss. */
  readonly next?: number;
}

type RaiseContext = Pick<JobContext, 'config' | 'inventory' | 'shelf' | 'signal'>;

const shelfName = (cluster: Cluster): string => `epoch:${cluster.name}`;

/** Compares the epoch of cluster and Redis; the very first start writes both, decided by create-if-absent. */
export async function checkEpoch(
  cluster: Cluster,
  shelf: Shelf,
  installation: string,
  signal: AbortSignal,
): Promise<EpochVerdict> {
  const inRedis = await shelf.get<Epoch>(shelfName(cluster));
  const inCluster = await readEpoch(cluster, installation, signal);
  if (inCluster === undefined) {
    if (inRedis !== undefined) return 'other';
    return firstStart(cluster, shelf, installation, signal);
  }
  return compareEpochs(inRedis, inCluster);
}

export function compareEpochs(inRedis: Epoch | undefined, inCluster: Epoch): EpochVerdict {
  if (inRedis === undefined || inRedis.epoch !== inCluster.epoch) return 'lost';
  return Math.max(inRedis.seq, inRedis.next ?? 0) >= inCluster.seq ? 'ok' : 'lost';
}

/**
 * Each sweep raises seq, cluster first, so that a Redis restored from before it is known to be old. One at a time: two that
 * overtook each other would leave Redis behind the cluster, which looks like a loss. Who finds another one at it is content.
 */
export async function raiseEpoch(context: RaiseContext, cluster: Cluster): Promise<void> {
  const { shelf, signal } = context;
  const { installation } = context.config;
  const lease = await context.inventory.tryLease(`epoch-${cluster.name}`);
  if (lease === undefined) return;
  try {
    const map = await cluster.read('configmaps', epochName(installation), { signal });
    if (map === undefined) throw new WindlassError('inventory_lost', 'The epoch of the cluster disappeared during a sweep.');
    const current = epochOf(map);
    const seq = current.seq + 1;
    await shelf.put(shelfName(cluster), { ...current, next: seq } satisfies Epoch);
    lease.assertHeld();
    const resourceVersion = map.metadata?.resourceVersion;
    await cluster.patch(
      'configmaps',
      epochName(installation),
      { metadata: { resourceVersion }, data: { seq: String(seq) } },
      { signal },
    );
    lease.assertHeld();
    await shelf.put(shelfName(cluster), { epoch: current.epoch, seq } satisfies Epoch);
  } finally {
    await lease.release();
  }
}

/** Takes the cluster's epoch over: only after every instance there has a record again. */
export async function adoptEpoch(cluster: Cluster, shelf: Shelf, installation: string, signal: AbortSignal): Promise<void> {
  const current = await readEpoch(cluster, installation, signal);
  if (current !== undefined) await shelf.put(shelfName(cluster), current);
  await shelf.drop(lostName(cluster));
}

const lostName = (cluster: Cluster): string => `inventory-lost:${cluster.name}`;
/** Longer than the rounds in which workers look. */
const lostTtlSeconds = 120;

/** What a worker's round found, for the launches in between. */
export async function noteVerdict(cluster: Cluster, shelf: Shelf, verdict: EpochVerdict): Promise<void> {
  if (verdict === 'lost') await shelf.put(lostName(cluster), true, lostTtlSeconds);
  else await shelf.drop(lostName(cluster));
}

/** Cheap where nothing is wrong: one look into Redis, which cannot hold an epoch after it was flushed. */
export async function isInventoryLost(
  cluster: Cluster,
  shelf: Shelf,
  installation: string,
  signal: AbortSignal,
): Promise<boolean> {
  const [epoch, lost] = await Promise.all([shelf.get<Epoch>(shelfName(cluster)), shelf.get<boolean>(lostName(cluster))]);
  if (epoch !== undefined) return lost === true;
  return (await checkEpoch(cluster, shelf, installation, signal)) === 'lost';
}

async function readEpoch(cluster: Cluster, installation: string, signal: AbortSignal): Promise<Epoch | undefined> {
  const map = await cluster.read('configmaps', epochName(installation), { signal });
  return map === undefined ? undefined : epochOf(map);
}

const epochOf = (map: V1ConfigMap): Epoch => ({ epoch: map.data?.epoch ?? '', seq: Number(map.data?.seq ?? 0) });

async function firstStart(cluster: Cluster, shelf: Shelf, installation: string, signal: AbortSignal): Promise<EpochVerdict> {
  const epoch = randomBytes(16).toString('hex');
  const metadata = { name: epochName(installation), namespace: cluster.namespace, labels: sharedLabels(installation, 'epoch') };
  try {
    await cluster.create('configmaps', { apiVersion: 'v1', kind: 'ConfigMap', metadata, data: { epoch, seq: '0' } }, { signal });
  } catch (error) {
    if (!isAlreadyExists(error)) throw error;
    const winner = await readEpoch(cluster, installation, signal);
    if (winner === undefined) throw error;
    // Another worker of ours started at the same moment, or this Redis is not the one that made the epoch.
    return compareEpochs(await shelf.get<Epoch>(shelfName(cluster)), winner);
  }
  await shelf.putIfAbsent(shelfName(cluster), { epoch, seq: 0 } satisfies Epoch);
  return 'ok';
}
