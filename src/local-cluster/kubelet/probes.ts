import type { V1Probe } from '@kubernetes/client-node';
import { runHandler, type Target } from './handler.ts';
import { pause } from './timing.ts';

type Kind = 'Startup' | 'Liveness' | 'Readiness';

export interface ProbeReports {
  readonly started: () => void;
  readonly ready: (ready: boolean) => void;
  /** The container must be restarted. */
  readonly unhealthy: (kind: Kind, probe: V1Probe) => void;
  readonly failed: (kind: Kind, message: string) => void;
}

/** Probes one run of a container until the signal aborts: startup first, then liveness and readiness. */
export async function probe(target: Target, reports: ProbeReports, signal: AbortSignal): Promise<void> {
  const { startupProbe, livenessProbe, readinessProbe } = target.container;
  if (startupProbe && !(await untilStarted(target, startupProbe, reports, signal))) return;
  if (signal.aborted) return;
  reports.started();
  if (!readinessProbe) reports.ready(true);
  await Promise.all([
    livenessProbe && repeat(target, 'Liveness', livenessProbe, reports, signal),
    readinessProbe && repeat(target, 'Readiness', readinessProbe, reports, signal),
  ]);
}

const periodOf = (one: V1Probe): number => (one.periodSeconds ?? 10) * 1000;

async function once(target: Target, kind: Kind, one: V1Probe, reports: ProbeReports, signal: AbortSignal): Promise<boolean> {
  const trouble = await runHandler(target, one, (one.timeoutSeconds ?? 1) * 1000);
  // A container that is being stopped fails its probes: nobody is to hear of it.
  if (trouble !== undefined && !signal.aborted) reports.failed(kind, `${kind} probe failed: ${trouble}`);
  return trouble === undefined;
}

async function untilStarted(target: Target, one: V1Probe, reports: ProbeReports, signal: AbortSignal): Promise<boolean> {
  await pause((one.initialDelaySeconds ?? 0) * 1000, signal);
  for (let failures = 0; !signal.aborted; await pause(periodOf(one), signal)) {
    if (await once(target, 'Startup', one, reports, signal)) return true;
    failures += 1;
    if (signal.aborted) return false;
    if (failures >= (one.failureThreshold ?? 3)) {
      reports.unhealthy('Startup', one);
      return false;
    }
  }
  return false;
}

async function repeat(
  target: Target,
  kind: 'Liveness' | 'Readiness',
  one: V1Probe,
  reports: ProbeReports,
  signal: AbortSignal,
): Promise<void> {
  await pause((one.initialDelaySeconds ?? 0) * 1000, signal);
  let successes = 0;
  let failures = 0;
  for (; !signal.aborted; await pause(periodOf(one), signal)) {
    const good = await once(target, kind, one, reports, signal);
    if (signal.aborted) return;
    successes = good ? successes + 1 : 0;
    failures = good ? 0 : failures + 1;
    const bad = failures >= (one.failureThreshold ?? 3);
    if (kind === 'Readiness' && successes >= (one.successThreshold ?? 1)) reports.ready(true);
    if (kind === 'Readiness' && bad) reports.ready(false);
    if (kind === 'Liveness' && bad) return reports.unhealthy('Liveness', one);
  }
}
