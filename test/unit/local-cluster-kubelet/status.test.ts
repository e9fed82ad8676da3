import { describe, expect, it } from 'vitest';
import type { ContainerState, ContainerStatus, Pod } from '../../../src/local-cluster/kubelet/pod-types.ts';
import { buildStatus, type StatusInput } from '../../../src/local-cluster/kubelet/status.ts';

const now = '2026-01-02T03:04:05Z';
const ended = (exitCode: number): ContainerState => ({
  terminated: { exitCode, reason: exitCode === 0 ? 'Completed' : 'Error', startedAt: now, finishedAt: now, containerID: 'c' },
});
const running: ContainerState = { running: { startedAt: now } };
const waiting = (reason: string): ContainerState => ({ waiting: { reason } });

function container(name: string, state: ContainerState, more: Partial<ContainerStatus> = {}): ContainerStatus {
  const ready = state.running !== undefined;
  return { name, state, lastState: {}, ready, started: ready, restartCount: 0, image: 'i', imageID: '', ...more };
}

function build(input: Partial<StatusInput> & { policy?: string; status?: object; spec?: object }) {
  const { policy = 'Always', status, spec = {}, ...rest } = input;
  const metadata = { name: 'p', namespace: 'd', uid: 'u', resourceVersion: '1', creationTimestamp: now, generation: 1 };
  const pod = {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata,
    spec: { containers: [], restartPolicy: policy, ...spec },
    status,
  } as unknown as Pod;
  const built = buildStatus({
    pod,
    init: [],
    sidecars: new Set(),
    app: [],
    podIP: '10.0.0.1',
    startTime: now,
    sandbox: true,
    now,
    ...rest,
  });
  const conditions = Object.fromEntries((built.conditions ?? []).map((one) => [one.type, one]));
  return { ...built, byType: conditions };
}

describe('the phase', () => {
  const crashed = container('a', waiting('CrashLoopBackOff'), { lastState: ended(1) });
  it.each([
    [
      'Pending while a container was never started',
      { app: [container('a', waiting('ContainerCreating')), container('b', running)] },
      'Pending',
    ],
    ['Running while one runs', { app: [container('a', ended(1)), container('b', running)], policy: 'Never' }, 'Running'],
    ['Running in a crash loop', { app: [crashed] }, 'Running'],
    ['Succeeded when all ended well', { app: [container('a', ended(0))], policy: 'OnFailure' }, 'Succeeded'],
    [
      'Failed when one did not, and none starts again',
      { app: [container('a', ended(0)), container('b', ended(2))], policy: 'Never' },
      'Failed',
    ],
    ['Running when a failed one starts again', { app: [container('a', ended(2))], policy: 'OnFailure' }, 'Running'],
    [
      'Failed at the end of a deletion that a container did not survive well',
      { app: [container('a', ended(137))], over: true },
      'Failed',
    ],
    ['Succeeded at the end of an orderly deletion', { app: [container('a', ended(0))], over: true }, 'Succeeded'],
    [
      'Pending while an init container fails again and again',
      { init: [container('i', ended(1))], app: [container('a', waiting('PodInitializing'))] },
      'Pending',
    ],
    [
      'Failed when an init container fails for good',
      { init: [container('i', ended(1))], app: [container('a', waiting('PodInitializing'))], policy: 'Never' },
      'Failed',
    ],
  ])('is %s', (_name, input, phase) => {
    expect(build(input).phase).toBe(phase);
  });

  it('is Failed by a verdict from outside, which is kept as reason', () => {
    const built = build({ app: [container('a', ended(137))], verdict: { reason: 'Evicted', message: 'low on memory' } });
    expect(built).toMatchObject({ phase: 'Failed', reason: 'Evicted', message: 'low on memory' });
    expect(built.byType.Ready).toMatchObject({ status: 'False', reason: 'PodFailed' });
  });
});

describe('the conditions', () => {
  it('come in the order and with the words of the real kubelet', () => {
    const built = build({ app: [container('a', running), container('b', waiting('ErrImagePull'))] });
    expect(built.conditions?.map((one) => one.type)).toEqual([
      'PodReadyToStartContainers',
      'Initialized',
      'Ready',
      'ContainersReady',
      'PodScheduled',
    ]);
    expect(built.byType.Ready).toEqual({
      type: 'Ready',
      status: 'False',
      reason: 'ContainersNotReady',
      message: 'containers with unready status: [b]',
      lastProbeTime: null,
      lastTransitionTime: now,
      observedGeneration: 1,
    });
  });

  it('keep the time of their last change, and what others wrote', () => {
    const before = { type: 'Initialized', status: 'True', lastProbeTime: null, lastTransitionTime: '2020-01-01T00:00:00Z' };
    const gate = { type: 'example.com/gate', status: 'False', lastProbeTime: null, lastTransitionTime: '2020-01-01T00:00:00Z' };
    const built = build({
      app: [container('a', running)],
      status: { phase: 'Pending', qosClass: 'BestEffort', conditions: [before, gate] },
      spec: { readinessGates: [{ conditionType: 'example.com/gate' }] },
    });
    expect(built.byType.Initialized?.lastTransitionTime).toBe('2020-01-01T00:00:00Z');
    expect(built.byType['example.com/gate']).toEqual(gate);
    expect(built.byType.ContainersReady?.status).toBe('True');
    expect(built.byType.Ready).toMatchObject({ status: 'False', reason: 'ReadinessGatesNotReady' });
    expect(built.qosClass).toBe('BestEffort');
  });

  it('wait for init containers to succeed and for sidecars to start', () => {
    const init = [container('i', ended(0), { ready: true }), container('s', running, { started: false, ready: false })];
    const input = { init, sidecars: new Set(['s']), app: [container('a', waiting('PodInitializing'))] };
    expect(build(input).byType.Initialized).toMatchObject({ status: 'False', message: 'containers with incomplete status: [s]' });
    const started = [init[0] as ContainerStatus, container('s', running)];
    expect(build({ ...input, init: started }).byType.Initialized?.status).toBe('True');
  });
});
