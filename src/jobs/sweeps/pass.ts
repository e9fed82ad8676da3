import type { Config, SweepKind } from '../../config/schema.ts';
import { asWindlassError, WindlassError } from '../../errors.ts';
import type { Lease } from '../../inventory/port.ts';
import type { Cluster } from '../../kubernetes/port.ts';
import type { JobContext, Remedy, SweepEntry, SweepReport } from '../context.ts';
import { checkEpoch, raiseEpoch } from '../epoch.ts';
import { breakerTrips } from './verdict.ts';

export interface SweepOptions {
  readonly dryRun: boolean;
  readonly ackMassDelete: boolean;
}

/** One walk of one kind of sweep over one cluster. */
export interface Pass extends JobContext {
  readonly cluster: Cluster;
  readonly settings: Config['sweeps'][SweepKind];
  /** Whether the pass before this one saw this key as a candidate. */
  seenBefore(key: string): boolean;
  /** Counts what was looked at. */
  looked(count: number): void;
}

/** One thing that was judged. Things in order need not be yielded. */
export interface Found {
  /** Names it from pass to pass: a UID, or a record's hash with what was seen of it. */
  readonly key: string;
  readonly entry: SweepEntry;
  /** Applies the verdict to what is read again; called once at most. */
  readonly act?: () => Promise<SweepEntry>;
}

export interface SweepPlan {
  readonly kind: SweepKind;
  /** Whether many removals at once are suspicious (I22): true where they are inferred from what is not there. */
  readonly breaker: boolean;
  look(pass: Pass): AsyncIterable<Found>;
}

/** Sightings older than this are no "pass before": longer than the slowest sensible schedule. */
const sightingTtlSeconds = 86_400;
/** Lines kept of a report: the rest is counted. */
const maxEntries = 500;

const remedies: readonly string[] = [
  'delete',
  'teardown',
  'suspend',
  'mark_lost',
  'requeue',
  'settle',
  'warn',
] satisfies Remedy[];
const isCandidate = (entry: SweepEntry): boolean => remedies.includes(entry.verdict);
const isRemoval = (entry: SweepEntry): boolean => entry.verdict === 'delete' || entry.verdict === 'teardown';

/** The walk that all kinds share, on every configured cluster; one that cannot be read degrades only itself (C95). */
export async function runPlan(context: JobContext, plan: SweepPlan, options: SweepOptions): Promise<SweepReport[]> {
  const reports: SweepReport[] = [];
  for (const name of context.clusters.names()) reports.push(await runPass(context, plan, context.clusters.get(name), options));
  return reports;
}

async function runPass(context: JobContext, plan: SweepPlan, cluster: Cluster, options: SweepOptions): Promise<SweepReport> {
  const settings = context.config.sweeps[plan.kind];
  const dryRun = options.dryRun || settings.dryRun;
  const startedAt = Date.now();
  const tally: Tally = { objects: 0, found: [] };
  let stopped: SweepReport['stopped'];
  try {
    await assertEpoch(context, cluster);
    await look(context, plan, cluster, tally);
    if (!dryRun) await raiseEpoch(context, cluster);
    if (plan.breaker) assertNoMassDelete(context, tally, options);
    await actOnAll(context, plan, cluster, tally, dryRun);
  } catch (thrown) {
    context.signal.throwIfAborted();
    const error = asWindlassError(thrown);
    stopped = { code: error.code, message: error.message };
    context.log.warn({ sweep: plan.kind, cluster: cluster.name, code: error.code }, 'sweep stopped');
  }
  return reportOf({ id: context.job.jobId, sweep: plan.kind, cluster: cluster.name, startedAt, dryRun, tally, stopped });
}

interface Tally {
  objects: number;
  readonly found: (Omit<Found, 'entry'> & { entry: SweepEntry })[];
}

/** Cluster first, inventory after (the plans keep to it): what is made in between has its record when it is asked for. */
async function look(context: JobContext, plan: SweepPlan, cluster: Cluster, tally: Tally): Promise<void> {
  const shelfName = `sightings:${plan.kind}:${cluster.name}`;
  const before = new Set((await context.shelf.get<string[]>(shelfName)) ?? []);
  const pass: Pass = {
    ...context,
    cluster,
    settings: context.config.sweeps[plan.kind],
    seenBefore: (key) => before.has(key),
    looked: (count) => {
      tally.objects += count;
    },
  };
  for await (const found of plan.look(pass)) {
    context.signal.throwIfAborted();
    if (found.entry.verdict !== 'keep') tally.found.push({ ...found });
  }
  const seen = tally.found.filter(({ entry }) => entry.verdict !== 'foreign').map(({ key }) => key);
  await context.shelf.put(shelfName, seen, sightingTtlSeconds);
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

function assertNoMassDelete(context: JobContext, tally: Tally, options: SweepOptions): void {
  const removals = tally.found.filter(({ entry }) => isRemoval(entry)).length;
  if (options.ackMassDelete || !breakerTrips(removals, tally.objects, context.config.sweeps.breaker)) return;
  throw new WindlassError('mass_delete_refused', `The sweep would remove ${removals} of ${tally.objects} and stopped.`);
}

async function actOnAll(context: JobContext, plan: SweepPlan, cluster: Cluster, tally: Tally, dryRun: boolean): Promise<void> {
  const candidates = tally.found.filter(({ entry }) => isCandidate(entry));
  for (const candidate of candidates.slice(0, context.config.sweeps[plan.kind].maxDeletes)) {
    context.signal.throwIfAborted();
    if (dryRun) candidate.entry = { ...candidate.entry, action: `would_${candidate.entry.verdict as Remedy}` };
    else if (candidate.act !== undefined) {
      candidate.entry = await candidate.act();
      context.log.info({ sweep: plan.kind, cluster: cluster.name, ...candidate.entry }, 'sweep acted');
    }
  }
}

interface ReportFacts {
  readonly id: string;
  readonly sweep: SweepKind;
  readonly cluster: string;
  readonly startedAt: number;
  readonly dryRun: boolean;
  readonly tally: Tally;
  readonly stopped: SweepReport['stopped'];
}

function reportOf({ tally, startedAt, stopped, ...about }: ReportFacts): SweepReport {
  const entries = tally.found.map(({ entry }) => entry);
  return {
    ...about,
    startedAt: new Date(startedAt).toISOString(),
    durationMs: Math.max(0, Date.now() - startedAt),
    objects: tally.objects,
    candidates: entries.filter(isCandidate).length,
    deleted: entries.filter((entry) => entry.action === 'deleted').length,
    acted: entries.filter((entry) => entry.action === 'done').length,
    verdicts: countVerdicts(tally.objects, entries),
    ...(stopped === undefined ? {} : { stopped }),
    entries: entries.slice(0, maxEntries),
    more: Math.max(0, entries.length - maxEntries),
  };
}

/** What is in order is not among the entries: it is what is left of all that was looked at. */
function countVerdicts(objects: number, entries: readonly SweepEntry[]): SweepReport['verdicts'] {
  const counts: Partial<Record<SweepEntry['verdict'], number>> = {};
  for (const { verdict } of entries) counts[verdict] = (counts[verdict] ?? 0) + 1;
  return { keep: Math.max(0, objects - entries.length), ...counts };
}

/** Runs `work` as the only one who acts on this instance (I21); what goes wrong is a line of the report. */
export async function underLease(
  pass: Pass,
  hash: string,
  entry: SweepEntry,
  work: (lease: Lease) => Promise<SweepEntry>,
): Promise<SweepEntry> {
  const lease = await pass.inventory.tryLease(hash);
  if (lease === undefined) return { ...entry, action: 'busy' };
  try {
    return await work(lease);
  } catch (error) {
    const { code, message } = asWindlassError(error);
    return { ...entry, action: 'failed', evidence: { ...entry.evidence, code, message } };
  } finally {
    await lease.release();
  }
}

/** The cluster's clock, which ages of objects are measured with: ours may be wrong (C35). */
export const serverNow = (cluster: Cluster): number => Date.now() + cluster.clockSkewMs();

export const ageSeconds = (since: number, now: number): number => Math.max(0, Math.floor((now - since) / 1000));
