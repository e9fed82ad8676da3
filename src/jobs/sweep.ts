import { asWindlassError, WindlassError } from '../errors.ts';
import { builtSweeps, type SweepPayload } from './catalog.ts';
import type { JobContext, SweepReport, SweepRun } from './context.ts';
import type { Exit } from './exit.ts';
import { sweepOrphans } from './sweeps/orphans.ts';

/** One entry per kind of sweep that this version has; a new kind is its file and its word here. */
const sweeps: Readonly<Record<(typeof builtSweeps)[number], SweepRun>> = { orphans: sweepOrphans };

const reportTtlSeconds = 3600;
const reportsKept = 50;

/** Where the caller who enqueued a sweep finds its reports. */
export const reportName = (jobId: string): string => `sweep-report:${jobId}`;

/** Runs the asked kinds one after another; never two of a kind at once on the whole installation (C43). */
export async function sweep(context: JobContext, payload: SweepPayload): Promise<Exit> {
  const kinds = builtSweeps.filter((kind) => payload.kinds.includes(kind) || payload.kinds.includes('all'));
  const reports: SweepReport[] = [];
  for (const kind of kinds) reports.push(...(await runKind(context, kind, payload)));
  await context.shelf.put(reportName(context.job.jobId), reports, reportTtlSeconds);
  for (const report of reports) await context.shelf.push('sweep-reports', report, reportsKept);
  return { kind: 'done', result: { reports: reports.length, deleted: reports.reduce((sum, report) => sum + report.deleted, 0) } };
}

async function runKind(context: JobContext, kind: keyof typeof sweeps, payload: SweepPayload): Promise<SweepReport[]> {
  const lease = await context.inventory.tryLease(`sweep-${kind}`);
  if (lease === undefined) return [skipped(kind, new WindlassError('lease_held', 'Another sweep of this kind is running.'))];
  try {
    const signal = AbortSignal.any([context.signal, lease.signal]);
    return await sweeps[kind](
      { ...context, signal },
      { dryRun: payload.dryRun === true, ackMassDelete: payload.ackMassDelete === true },
    );
  } catch (error) {
    context.signal.throwIfAborted();
    return [skipped(kind, asWindlassError(error))];
  } finally {
    await lease.release();
  }
}

function skipped(kind: keyof typeof sweeps, error: WindlassError): SweepReport {
  return {
    sweep: kind,
    cluster: '',
    startedAt: new Date().toISOString(),
    durationMs: 0,
    dryRun: false,
    objects: 0,
    candidates: 0,
    deleted: 0,
    stopped: { code: error.code, message: error.message },
    entries: [],
  };
}
