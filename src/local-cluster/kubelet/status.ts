import type { V1PodReadinessGate } from '@kubernetes/client-node';
import type { Condition, ContainerStatus, NewCondition, Pod, PodStatus } from './pod-types.ts';
import { hostIP } from './pod-types.ts';

/** All that a Pod's status is made of. */
export interface StatusInput {
  readonly pod: Pod;
  /** In spec order. */
  readonly init: readonly ContainerStatus[];
  /** Names of the init containers that go on running. */
  readonly sidecars: ReadonlySet<string>;
  readonly app: readonly ContainerStatus[];
  readonly podIP: string | undefined;
  readonly startTime: string;
  /** The sandbox is up. */
  readonly sandbox: boolean;
  /** The Pod is being deleted and nothing of it runs any more: its phase is final. */
  readonly over?: boolean;
  /** The Pod was ended from outside: evicted, over its deadline. */
  readonly verdict?: { readonly reason: string; readonly message: string };
  /** Conditions that others than the kubelet's ordinary work want: DisruptionTarget. */
  readonly extra?: readonly NewCondition[];
  readonly now: string;
}

/** What the real kubelet would write. */
export function buildStatus(input: StatusInput): PodStatus {
  const { pod, podIP } = input;
  const phase = phaseOf(input);
  const generation = pod.metadata.generation === undefined ? {} : { observedGeneration: pod.metadata.generation };
  return {
    ...pod.status,
    ...generation,
    phase,
    conditions: conditionsOf(input, phase),
    hostIP,
    hostIPs: [{ ip: hostIP }],
    ...(podIP === undefined ? {} : { podIP, podIPs: [{ ip: podIP }] }),
    startTime: input.startTime,
    ...(input.verdict ?? {}),
    ...(input.init.length === 0 ? {} : { initContainerStatuses: [...input.init] }),
    containerStatuses: [...input.app],
  };
}

const hasEnded = (status: ContainerStatus): boolean => status.state.terminated !== undefined;
const failed = (status: ContainerStatus): boolean => (status.state.terminated?.exitCode ?? 0) !== 0;

function initialized({ init, sidecars }: StatusInput): string[] {
  const done = (one: ContainerStatus) => (sidecars.has(one.name) ? one.started : hasEnded(one) && !failed(one));
  return init.filter((one) => !done(one)).map((one) => one.name);
}

/** The kubelet's rules: what waits after an earlier end counts as ended, not as waiting. */
export function phaseOf(input: StatusInput): string {
  const { pod, app } = input;
  if (input.verdict !== undefined) return 'Failed';
  const policy = pod.spec.restartPolicy ?? 'Always';
  if (initialized(input).length > 0 && !app.some((one) => one.state.running || hasEnded(one))) {
    const lost = input.init.some((one) => !input.sidecars.has(one.name) && failed(one));
    return policy === 'Never' && lost ? 'Failed' : 'Pending';
  }
  const waiting = app.filter((one) => one.state.waiting !== undefined && one.lastState.terminated === undefined);
  if (waiting.length > 0) return 'Pending';
  if (input.over === true)
    return app.every((one) => (one.state.terminated ?? one.lastState.terminated)?.exitCode === 0) ? 'Succeeded' : 'Failed';
  if (app.some((one) => one.state.running !== undefined) || policy === 'Always') return 'Running';
  const ended = app.map((one) => one.state.terminated ?? one.lastState.terminated);
  if (ended.every((one) => one?.exitCode === 0)) return 'Succeeded';
  return policy === 'Never' ? 'Failed' : 'Running';
}

interface Draft {
  readonly type: string;
  readonly status: 'True' | 'False';
  readonly reason?: string;
  readonly message?: string;
}

function conditionsOf(input: StatusInput, phase: string): Condition[] {
  const { pod, now } = input;
  const before = new Map((pod.status?.conditions ?? []).map((condition) => [condition.type, condition]));
  const containers = containersReady(input, phase);
  const drafts: Draft[] = [
    { type: 'PodReadyToStartContainers', status: input.sandbox ? 'True' : 'False' },
    initializedCondition(input, phase),
    { ...readyCondition(pod.spec.readinessGates ?? [], before, containers), type: 'Ready' },
    containers,
    { type: 'PodScheduled', status: 'True' },
    ...((input.extra ?? []) as Draft[]),
  ];
  const generation = pod.metadata.generation === undefined ? {} : { observedGeneration: pod.metadata.generation };
  const conditions = drafts.map((draft): Condition => {
    const old = before.get(draft.type);
    const lastTransitionTime = old?.status === draft.status ? old.lastTransitionTime : now;
    return { lastProbeTime: null, lastTransitionTime, ...generation, ...draft };
  });
  const own = new Set(drafts.map((draft) => draft.type));
  return [...conditions, ...[...before.values()].filter((condition) => !own.has(condition.type))];
}

function initializedCondition(input: StatusInput, phase: string): Draft {
  const missing = initialized(input);
  if (phase === 'Succeeded') return { type: 'Initialized', status: 'True', reason: 'PodCompleted' };
  if (missing.length === 0 || input.app.some((one) => one.state.running || hasEnded(one)))
    return { type: 'Initialized', status: 'True' };
  const message = `containers with incomplete status: [${missing.join(' ')}]`;
  return { type: 'Initialized', status: 'False', reason: 'ContainersNotInitialized', message };
}

function containersReady({ init, sidecars, app }: StatusInput, phase: string): Draft {
  const type = 'ContainersReady';
  if (phase === 'Succeeded') return { type, status: 'False', reason: 'PodCompleted' };
  if (phase === 'Failed') return { type, status: 'False', reason: 'PodFailed' };
  const unready = [...init.filter((one) => sidecars.has(one.name)), ...app].filter((one) => !one.ready).map((one) => one.name);
  if (unready.length === 0) return { type, status: 'True' };
  return {
    type,
    status: 'False',
    reason: 'ContainersNotReady',
    message: `containers with unready status: [${unready.join(' ')}]`,
  };
}

function readyCondition(gates: readonly V1PodReadinessGate[], before: ReadonlyMap<string, Condition>, containers: Draft): Draft {
  if (containers.status === 'False') return containers;
  const messages = gates.flatMap(({ conditionType }) => {
    const gate = before.get(conditionType);
    if (gate?.status === 'True') return [];
    const state = gate === undefined ? 'does not exist' : `is not "True"`;
    return [`corresponding condition of pod readiness gate "${conditionType}" ${state}.`];
  });
  if (messages.length === 0) return containers;
  return { type: 'Ready', status: 'False', reason: 'ReadinessGatesNotReady', message: messages.join(', ') };
}
