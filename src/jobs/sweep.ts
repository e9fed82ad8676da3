import { asWindlassError, WindlassError } from '../errors.ts';
import { builtSweeps, type SweepPayload } from './catalog.ts';
import type { JobContext, SweepReport } from './context.ts';
import type { Exit } from './exit.ts';
import { configMaps } from './sweeps/config-maps.ts';
import { expired } from './sweeps/expired.ts';
import { ghosts } from './sweeps/ghosts.ts';
import { noteSweepHealth } from './sweeps/health.ts';
import { orphans } from './sweeps/orphans.ts';
import { runPlan, type SweepPlan } from './sweeps/pass.ts';
import { stuck } from './sweeps/stuck.ts';

type Kind = (typeof builtSweeps)[number];

/** One entry per kind of sweep that this version has; a new kind is its file and its word here. */
const plans: Readonly<Record<Kind, SweepPlan>> = { orphans, ghosts, expired, 'config-maps': configMaps, stuck };

const reportTtlSeconds = 3600;
const reportsKept = 200;
/** The list of the last reports of all kinds, newest first. */
export const reportList = 'sweep-reports';

/** Where the caller who enqueued a sweep finds its reports. */
export const reportName = (jobId: string): string => `sweep-report:${jobId}`;

/** Runs the asked kinds one after another; never two of a kind at once on the whole installation (C43). */
export async function sweep(context: JobContext, payload: SweepPayload): Promise<Exit> {
  const kinds = builtSweeps.filter((kind) => payload.kinds.includes(kind) || payload.kinds.includes('all'));
  const reports: SweepReport[] = [];
  for (const kind of kinds) reports.push(...(await runKind(context, kind, payload)));
  await context.shelf.put(reportName(context.job.jobId), reports, reportTtlSeconds);
  // An overlap says nothing about the cluster: among the last reports it would only push out those that do.
  for (const report of reports.filter(({ stopped }) => stopped?.code !== 'lease_held'))
    await context.shelf.push(reportList, report, reportsKept);
  const sum = (field: 'deleted' | 'acted') => reports.reduce((total, report) => total + report[field], 0);
  return {
    kind: 'done',
    result: { reports: reports.length, deleted: sum('deleted'), acted: sum('acted'), overlaps: overlaps(reports) },
  };
}

const overlaps = (reports: readonly SweepReport[]): number =>
  reports.filter(({ stopped }) => stopped?.code === 'lease_held').length;

async function runKind(context: JobContext, kind: Kind, payload: SweepPayload): Promise<SweepReport[]> {
  const lease = await context.inventory.tryLease(`sweep-${kind}`);
  if (lease === undefined) {
    context.log.info({ sweep: kind }, 'sweep skipped: another of its kind is running');
    return [skipped(context, kind, new WindlassError('lease_held', 'Another sweep of this kind is running.'))];
  }
  try {
    const signal = AbortSignal.any([context.signal, lease.signal]);
    const options = { dryRun: payload.dryRun === true, ackMassDelete: payload.ackMassDelete === true };
    const reports = await runPlan({ ...context, signal }, plans[kind], options);
    for (const report of reports) context.sweepDone(report);
    if (!options.dryRun) await noteSweepHealth(context.shelf, kind, reports, await context.inventory.now());
    return reports;
  } catch (error) {
    context.signal.throwIfAborted();
    return [skipped(context, kind, asWindlassError(error))];
  } finally {
    await lease.release();
  }
}

function skipped(context: JobContext, kind: Kind, error: WindlassError): SweepReport {
  return {
    id: context.job.jobId,
    sweep: kind,
    cluster: '',
    startedAt: new Date().toISOString(),
    durationMs: 0,
    dryRun: false,
    objects: 0,
    candidates: 0,
    deleted: 0,
    acted: 0,
    verdicts: {},
    stopped: { code: error.code, message: error.message },
    entries: [],
    more: 0,
  };
}
