import type { V1ObjectMeta } from '@kubernetes/client-node';
import { asWindlassError, WindlassError } from '../../errors.ts';
import { keys } from '../../kubernetes/ownership.ts';
import type { Cluster } from '../../kubernetes/port.ts';
import type { JobContext, SweepEntry, SweepReport } from '../context.ts';
import { checkEpoch, raiseEpoch } from '../epoch.ts';
import { breakerTrips, judgeOrphan, type OrphanFacts } from './verdict.ts';

type OwnedKind = OrphanFacts['kind'];
interface Seen {
  readonly kind: OwnedKind;
  readonly meta: V1ObjectMeta;
  readonly serverTime: number;
}
interface Options {
  readonly dryRun: boolean;
  readonly ackMassDelete: boolean;
}

const ownedKinds: readonly OwnedKind[] = ['pods', 'persistentvolumeclaims'];
/** Sightings older than this are no "pass before": 3 sweep periods of the slowest sensible schedule. */
const sightingTtlSeconds = 86_400;

/** Objects of this installation without a live record, on every configured cluster; one unreadable cluster degrades only itself. */
export async function sweepOrphans(context: JobContext, options: Options): Promise<SweepReport[]> {
  const reports: SweepReport[] = [];
  for (const name of context.clusters.names()) reports.push(await sweepCluster(context, context.clusters.get(name), options));
  return reports;
}

async function sweepCluster(context: JobContext, cluster: Cluster, options: Options): Promise<SweepReport> {
  const startedAt = Date.now();
  const { dryRun, graceSeconds, maxDeletes } = context.config.sweeps.orphans;
  const dry = options.dryRun || dryRun;
  const entries: SweepEntry[] = [];
  let objects = 0;
  let stopped: SweepReport['stopped'];
  try {
    await assertEpoch(context, cluster);
    // Cluster first, inventory after: an object made in between has its record by the time it is asked for (I21).
    const seen = await listOwned(context, cluster);
    objects = seen.length;
    entries.push(...(await judgeAll(context, cluster, seen, graceSeconds)));
    if (!dry) await raiseEpoch(cluster, context.shelf, context.config.installation, context.signal);
    const candidates = entries.filter((entry) => entry.verdict === 'delete');
    if (!options.ackMassDelete && breakerTrips(candidates.length, objects, context.config.sweeps.breaker)) {
      throw new WindlassError(
        'mass_delete_refused',
        `The sweep would delete ${candidates.length} of ${objects} objects and stopped.`,
      );
    }
    for (const entry of candidates.slice(0, maxDeletes))
      replace(entries, entry, await act(context, cluster, entry, graceSeconds, dry));
  } catch (thrown) {
    context.signal.throwIfAborted();
    const error = asWindlassError(thrown);
    stopped = { code: error.code, message: error.message };
    context.log.warn({ sweep: 'orphans', cluster: cluster.name, code: error.code }, 'sweep stopped');
  }
  return {
    sweep: 'orphans',
    cluster: cluster.name,
    startedAt: new Date(startedAt).toISOString(),
    durationMs: Math.max(0, Date.now() - startedAt),
    dryRun: dry,
    objects,
    candidates: entries.filter((entry) => entry.verdict === 'delete').length,
    deleted: entries.filter((entry) => entry.action === 'deleted').length,
    ...(stopped === undefined ? {} : { stopped }),
    entries: entries.filter((entry) => entry.verdict !== 'keep'),
  };
}

async function assertEpoch(context: JobContext, cluster: Cluster): Promise<void> {
  const verdict = await checkEpoch(cluster, context.shelf, context.config.installation, context.signal);
  if (verdict === 'lost') throw new WindlassError('inventory_lost');
  if (verdict === 'other') {
    throw new WindlassError(
      'inventory_lost',
      `Another cluster answers as "${cluster.name}" than before; nothing is judged there.`,
    );
  }
}

async function listOwned(context: JobContext, cluster: Cluster): Promise<Seen[]> {
  const seen: Seen[] = [];
  for (const kind of ownedKinds) {
    for await (const page of cluster.listMetadata(kind, `${keys.installation}=${context.config.installation}`, {
      signal: context.signal,
    })) {
      for (const meta of page.items) seen.push({ kind, meta, serverTime: page.serverTime });
    }
  }
  return seen;
}

async function judgeAll(
  context: JobContext,
  cluster: Cluster,
  seen: readonly Seen[],
  graceSeconds: number,
): Promise<SweepEntry[]> {
  const shelfName = `sightings:orphans:${cluster.name}`;
  const before = new Set((await context.shelf.get<string[]>(shelfName)) ?? []);
  const entries: SweepEntry[] = [];
  for (const object of seen) entries.push(await judge(context, object, before.has(object.meta.uid ?? ''), graceSeconds));
  const now = entries.filter((entry) => entry.verdict === 'delete' || entry.verdict === 'watch').map((entry) => entry.uid);
  await context.shelf.put(shelfName, now, sightingTtlSeconds);
  return entries;
}

async function judge(
  context: JobContext,
  { kind, meta, serverTime }: Seen,
  before: boolean,
  graceSeconds: number,
): Promise<SweepEntry> {
  const hash = hashOf(meta.name ?? '', kind);
  const created = new Date(meta.creationTimestamp ?? serverTime).getTime();
  const ageSeconds = Math.max(0, Math.floor((serverTime - created) / 1000));
  const about = { kind, name: meta.name ?? '', uid: meta.uid ?? '', ageSeconds, action: 'none' } as const;
  if (hash === undefined) return { ...about, rule: 'not_named_by_us', verdict: 'foreign', evidence: {} };
  const record = await context.inventory.readByHash(hash);
  const tombstone = record === undefined ? await context.inventory.tombstoneByHash(hash) : undefined;
  return { ...about, ...judgeOrphan({ meta, kind, record, tombstone, sighting: { before, ageSeconds }, graceSeconds }) };
}

function hashOf(name: string, kind: OwnedKind): string | undefined {
  const pattern = kind === 'pods' ? /^windlass-([0-9a-f]{20})$/ : /^windlass-([0-9a-f]{20})-workspace$/;
  return pattern.exec(name)?.[1];
}

/** Under the instance's lease, on what is read again, by UID and resourceVersion (I12, I21). */
async function act(
  context: JobContext,
  cluster: Cluster,
  entry: SweepEntry,
  graceSeconds: number,
  dryRun: boolean,
): Promise<SweepEntry> {
  if (dryRun) return { ...entry, action: 'would_delete' };
  const kind = entry.kind as OwnedKind;
  const lease = await context.inventory.tryLease(hashOf(entry.name, kind) ?? '');
  if (lease === undefined) return { ...entry, action: 'busy' };
  try {
    const object = await cluster.read(kind, entry.name, { signal: context.signal });
    if (object?.metadata?.uid !== entry.uid) return { ...entry, action: 'gone' };
    const again = await judge(
      context,
      { kind, meta: object.metadata, serverTime: Date.now() + cluster.clockSkewMs() },
      true,
      graceSeconds,
    );
    if (again.verdict !== 'delete') return { ...again, action: 'changed' };
    lease.assertHeld();
    const resourceVersion = object.metadata.resourceVersion ?? '';
    await cluster.remove(kind, entry.name, { uid: entry.uid, resourceVersion, signal: context.signal });
    context.log.info({ sweep: 'orphans', cluster: cluster.name, ...again }, 'orphan deleted');
    return { ...again, action: 'deleted' };
  } catch (error) {
    const { code, message } = asWindlassError(error);
    return { ...entry, action: 'failed', evidence: { ...entry.evidence, code, message } };
  } finally {
    await lease.release();
  }
}

function replace(entries: SweepEntry[], old: SweepEntry, next: SweepEntry): void {
  entries[entries.indexOf(old)] = next;
}
