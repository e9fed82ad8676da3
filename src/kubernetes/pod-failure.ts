import type { CoreV1Event, V1Pod } from '@kubernetes/client-node';
import type { ErrorCode } from '../error-codes.ts';
import { claimTrouble } from './claim-trouble.ts';
import { type ContainerProblem, endProblem, waitingProblem } from './pod-containers.ts';
import { disruptionOf, mainEnd, nodeGone, type PodFinish, refusedByNode } from './pod-end.ts';
import { type Budgets, missingMount, type PodPhase, phaseOf, type WaitReason } from './pod-phases.ts';
import { blockingContainer, type ContainerView, conditionOf, containersOf, evidenceOf } from './pod-view.ts';
import { sanitize } from './sanitize.ts';

export interface JudgeInput {
  readonly pod: V1Pod;
  readonly mainContainer: string;
  /** Events about the Pod, oldest first; may be empty. */
  readonly events: readonly CoreV1Event[];
  /** Events about the claim of the workspace, oldest first; only asked for while the Pod waits for it. */
  readonly claimEvents?: readonly CoreV1Event[];
  /** Server ms. */
  readonly now: number;
  readonly budgets: Budgets;
  /**
   * Server ms at which this run began to look at the Pod; default 0. A Pod that is taken up again has a history: ends of
   * its containers before it are not this run's failures, and no budget starts earlier.
   */
  readonly since?: number;
}

export type PodJudgement =
  | {
      /** The main container runs. `started` is false until its startup probe has passed. */
      readonly kind: 'running';
      readonly started: boolean;
      readonly restartCount: number;
      readonly containerId: string;
      /** It ran to its end already, in a Pod that is not started again. */
      readonly finish?: PodFinish;
    }
  | {
      readonly kind: 'waiting';
      readonly reason: WaitReason | 'preparing';
      readonly message: string;
      /** Server ms when a grace or a budget ends and the verdict may change without any change of the Pod. */
      readonly recheckAt?: number;
    }
  | {
      readonly kind: 'failed';
      readonly code: ErrorCode;
      readonly message: string;
      readonly evidence: Record<string, unknown>;
    };

/** A kubelet tries a mount again after at most two minutes; what is missing may be made in between. */
const mountGraceMs = 60_000;

/** What a Pod on its way to running is doing: pure, so that every worker and every test sees the same. */
export function judgePod(input: JudgeInput): PodJudgement {
  const { pod, events, since = 0 } = input;
  const containers = containersOf(pod, input.mainContainer, since);
  const evidence = evidenceOf(pod, containers, events);
  const failed = (code: ErrorCode, message: string, more: object = {}): PodJudgement => ({
    kind: 'failed',
    code,
    message: sanitize(message, 1500),
    evidence: { ...evidence, ...more },
  });
  const finished = finishedVerdict(pod, input.mainContainer);
  if (finished) return finished;
  const end = podEnd(pod, containers);
  if (end) return failed(end.code, end.message, end.evidence);
  const main = containers.find(({ kind }) => kind === 'main');
  const running = runningVerdict(main);
  if (running?.kind === 'running') return running;
  const found = phaseOf(pod, containers, events, input.budgets);
  const phase = { ...found, since: Math.max(found.since, since) };
  const stored = phase.reason === 'storage' ? claimTrouble(input.claimEvents ?? []) : undefined;
  const problem = running ?? findProblem(containers, events, phase) ?? stored;
  const final = problem && (problem.since ?? phase.since) + problem.graceMs;
  if (problem && final !== undefined && input.now >= final) return failed(problem.code, problem.message, problem.evidence);
  const deadline = phase.since + phase.budgetMs;
  if (input.now >= deadline && problem !== undefined && problem === stored)
    return failed(problem.code, problem.message, problem.evidence);
  if (input.now >= deadline)
    return failed('launch_deadline', lateMessage(phase, problem), { phase: phase.reason, budgetSeconds: phase.budgetMs / 1000 });
  const message = sanitize(problem?.message ?? phase.words, 1000) || sentences[phase.reason];
  return { kind: 'waiting', reason: phase.reason, message, recheckAt: Math.min(deadline, final ?? deadline) };
}

/** An app that is through before anybody looked has run all the same. */
function finishedVerdict(pod: V1Pod, mainContainer: string): PodJudgement | undefined {
  const finish = mainEnd(pod, mainContainer);
  if (finish === undefined || finish.reason === 'OOMKilled') return undefined;
  const status = pod.status?.containerStatuses?.find(({ name }) => name === mainContainer);
  return { kind: 'running', started: true, restartCount: 0, containerId: status?.containerID ?? '', finish };
}

const sentences: Readonly<Record<WaitReason, string>> = {
  scheduling: 'Waiting for a node.',
  storage: 'Waiting for the volumes.',
  pulling: 'Waiting for the image.',
  starting: 'Waiting for the container to start.',
};

function lateMessage(phase: PodPhase, problem: ContainerProblem | undefined): string {
  const words = problem?.message ?? phase.words;
  return `${phase.reason} took longer than ${phase.budgetMs / 1000} s${words ? `: ${words}` : '.'}`;
}

export interface PodEnd {
  readonly code: ErrorCode;
  readonly message: string;
  readonly evidence: object;
}

/** The Pod as a whole is over, or about to be. */
export function podEnd(pod: V1Pod, containers: readonly ContainerView[]): PodEnd | undefined {
  const disruption = conditionOf(pod, 'DisruptionTarget');
  const disrupted = disruptionOf(pod);
  const { phase, reason = '', message = '' } = pod.status ?? {};
  const words = [reason || disrupted, message || (disruption?.message ?? '')].filter((part) => part !== '').join(': ');
  const end = (code: ErrorCode, text: string): PodEnd => ({
    code,
    message: text,
    evidence: { reason: sanitize(reason || disrupted, 100) },
  });
  if (nodeGone.test(reason) || nodeGone.test(disrupted) || phase === 'Unknown')
    return end('node_lost', `The node ${pod.spec?.nodeName ?? ''} of the Pod is lost (${words || 'phase Unknown'}).`);
  if (disrupted !== '' || refusedByNode.test(reason)) return end('pod_disrupted', `The cluster took the Pod away: ${words}`);
  if (pod.metadata?.deletionTimestamp) return end('pod_disrupted', 'The Pod is being deleted by somebody else.');
  if (phase === 'Succeeded') return end('exit_early', 'All containers of the Pod ended with exit code 0.');
  if (phase !== 'Failed') return undefined;
  for (const container of containers) {
    const problem = endProblem(container);
    if (problem) return problem;
  }
  const main = containers.find(({ kind }) => kind === 'main')?.status?.state?.terminated;
  const code = main ? `The main container ended with exit code ${main.exitCode}.` : 'The Pod failed.';
  return end('exit_early', words ? `${code} ${words}` : code);
}

/** A running main container; or the problem that its last end tells of, as long as it has not passed its startup probe. */
function runningVerdict(
  main: ContainerView | undefined,
): Extract<PodJudgement, { kind: 'running' }> | (ContainerProblem & { kind?: never }) | undefined {
  const status = main?.status;
  if (!main || !status) return undefined;
  const started = status.started !== false;
  if (status.state?.running && started)
    return { kind: 'running', started, restartCount: status.restartCount, containerId: status.containerID ?? '' };
  const problem = endProblem(main);
  if (problem) return problem;
  if (!status.state?.running) return undefined;
  return { kind: 'running', started, restartCount: status.restartCount, containerId: status.containerID ?? '' };
}

/** The problem of whatever holds up the start; of a sidecar only what keeps it from ever being created. */
function findProblem(
  containers: readonly ContainerView[],
  events: readonly CoreV1Event[],
  phase: PodPhase,
): ContainerProblem | undefined {
  const missing = phase.reason === 'storage' ? missingMount(events) : undefined;
  if (missing)
    return {
      code: 'config_missing',
      message: missing.text,
      graceMs: mountGraceMs,
      since: missing.since,
      evidence: { reason: 'FailedMount' },
    };
  const blocking = blockingContainer(containers);
  for (const container of containers) {
    const holds = container === blocking;
    const problem = waitingProblem(container, events) ?? (holds ? endProblem(container) : undefined);
    // Sidecars may crash: only the main container and what runs before it decide about the launch (C55).
    if (problem && (holds || container.status?.state?.waiting?.reason !== 'CrashLoopBackOff')) return problem;
  }
  return undefined;
}
