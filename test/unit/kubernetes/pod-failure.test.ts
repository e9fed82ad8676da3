import type { CoreV1Event, V1ContainerState, V1ContainerStatus, V1Pod, V1PodCondition } from '@kubernetes/client-node';
import { describe, expect, it } from 'vitest';
import { budgetsSchema } from '../../../src/config/schema.ts';
import { type JudgeInput, judgePod, type PodJudgement } from '../../../src/kubernetes/pod-failure.ts';

const t0 = Date.parse('2026-01-01T00:00:00Z');
const at = (seconds: number): Date => new Date(t0 + seconds * 1000);
const budgets = budgetsSchema.parse({ schedule: 300, storage: 600, pull: 60, start: 120 });

const condition = (type: string, seconds: number, status = 'True', rest: Partial<V1PodCondition> = {}): V1PodCondition => ({
  type,
  status,
  lastTransitionTime: at(seconds),
  ...rest,
});
const scheduled = (seconds = 1) => condition('PodScheduled', seconds);
const placed = (seconds = 2) => condition('PodReadyToStartContainers', seconds);

function status(name: string, state: V1ContainerState, rest: Partial<V1ContainerStatus> = {}): V1ContainerStatus {
  return { name, state, image: 'node:local', imageID: '', ready: false, restartCount: 0, ...rest };
}
const waiting = (reason: string, message = ''): V1ContainerState => ({ waiting: { reason, message } });
const ended = (exitCode: number, rest: object = {}): V1ContainerState => ({
  terminated: { exitCode, finishedAt: at(20), ...rest },
});

interface Parts {
  readonly conditions?: V1PodCondition[];
  readonly main?: V1ContainerStatus;
  readonly init?: V1ContainerStatus;
  readonly sidecar?: V1ContainerStatus;
  readonly pod?: Partial<NonNullable<V1Pod['status']>>;
  readonly deleting?: boolean;
}

function podWith(parts: Parts): V1Pod {
  const regular = [parts.main, parts.sidecar].filter((one) => one !== undefined);
  return {
    metadata: {
      name: 'windlass-x',
      uid: 'u1',
      creationTimestamp: at(0),
      ...(parts.deleting ? { deletionTimestamp: at(5) } : {}),
    },
    spec: {
      ...(parts.conditions?.some(({ type, status: value }) => type === 'PodScheduled' && value === 'True')
        ? { nodeName: 'n1' }
        : {}),
      ...(parts.init ? { initContainers: [{ name: 'setup', image: 'node:local' }] } : {}),
      containers: [
        { name: 'agent', image: 'node:local', resources: { limits: { memory: '2Gi' } } },
        ...(parts.sidecar ? [{ name: 'proxy' }] : []),
      ],
    },
    status: {
      phase: 'Pending',
      conditions: parts.conditions ?? [scheduled(), placed()],
      ...(regular.length > 0 ? { containerStatuses: regular } : {}),
      ...(parts.init ? { initContainerStatuses: [parts.init] } : {}),
      ...parts.pod,
    },
  };
}

const event = (reason: string, seconds: number, message = '', rest: Partial<CoreV1Event> = {}): CoreV1Event => ({
  metadata: { uid: `${reason}-${seconds}` },
  involvedObject: { uid: 'u1', name: 'windlass-x', fieldPath: 'spec.containers{agent}' },
  type: /^(Failed|BackOff)/.test(reason) ? 'Warning' : 'Normal',
  reason,
  message,
  firstTimestamp: at(seconds),
  lastTimestamp: at(seconds),
  ...rest,
});

const judge = (parts: Parts, seconds: number, events: CoreV1Event[] = [], rest: Partial<JudgeInput> = {}): PodJudgement =>
  judgePod({ pod: podWith(parts), mainContainer: 'agent', events, now: at(seconds).getTime(), budgets, ...rest });

const failure = (code: string, text: RegExp | string = '') => ({ kind: 'failed', code, message: expect.stringMatching(text) });

describe('a main container that runs', () => {
  const running = { running: { startedAt: at(5) } };
  it('is running, and started once its startup probe has passed', () => {
    const main = status('agent', running, { started: true, restartCount: 2, containerID: 'c://1' });
    expect(judge({ main }, 9999)).toEqual({ kind: 'running', started: true, restartCount: 2, containerId: 'c://1' });
    expect(judge({ main: { ...main, started: false } }, 9999)).toMatchObject({ kind: 'running', started: false });
  });

  it('C55: runs whatever an injected sidecar does', () => {
    const sidecar = status('proxy', waiting('CrashLoopBackOff'), { restartCount: 9 });
    expect(judge({ main: status('agent', running, { started: true }), sidecar }, 50)).toMatchObject({ kind: 'running' });
  });

  it('has failed when its last life ended in prepare and the probe has not passed since', () => {
    const lastState = ended(3, { message: 'npm ERR!\nwindlass: prepare failed with exit code 3\n' });
    const main = status('agent', running, { started: false, lastState, restartCount: 1 });
    const verdict = judge({ main }, 25);
    expect(verdict).toMatchObject(failure('prepare_failed', /exit code 3/));
    expect(verdict).toMatchObject({ evidence: { exitCode: 3, log: expect.stringContaining('npm ERR!') } });
    expect(judge({ main: { ...main, started: true } }, 25)).toMatchObject({ kind: 'running' });
    expect(judge({ main }, 25, [], { since: at(24).getTime() })).toMatchObject({ kind: 'running', started: false });
  });
});

describe('C46: image errors', () => {
  const cases: [string, string, string, number][] = [
    ['InvalidImageName', 'couldn\'t parse image name "A B"', 'image_invalid', 0],
    ['ErrImageNeverPull', 'Container image "x" is not present', 'image_pull_failed', 0],
    ['ErrImagePull', 'manifest unknown', 'image_pull_failed', 30],
    ['ImagePullBackOff', 'Back-off pulling image "x"', 'image_pull_failed', 30],
    ['ImagePullBackOff', 'Back-off: toomanyrequests: slow down', 'image_pull_throttled', 30],
    [
      'ErrImagePull',
      'unexpected status from HEAD request to https://r.example/v2/x: 503 Service Unavailable',
      'image_pull_throttled',
      30,
    ],
  ];
  it.each(cases)('%s (%s) is %s after %d s', (reason, message, code, grace) => {
    const main = status('agent', waiting(reason, message));
    const events = [event('Pulling', 3), event('Failed', 5, `Failed to pull image: ${message}`)];
    if (grace > 0) {
      expect(judge({ main }, 5 + grace - 1, events)).toMatchObject({ kind: 'waiting', recheckAt: at(5 + grace).getTime() });
    }
    expect(judge({ main }, 5 + grace, events)).toMatchObject(failure(code, reason));
  });

  it("reads the registry's words from the event when the status has none", () => {
    const events = [event('Pulling', 3), event('Failed', 5, 'Failed to pull image "x": toomanyrequests: limit')];
    expect(judge({ main: status('agent', waiting('ImagePullBackOff', 'Back-off')) }, 40, events)).toMatchObject(
      failure('image_pull_throttled'),
    );
  });

  it('counts the grace from the start of the pull when no event is seen', () => {
    const main = status('agent', waiting('ErrImagePull', 'nope'));
    expect(judge({ main }, 31)).toMatchObject({ kind: 'waiting', reason: 'pulling' });
    expect(judge({ main }, 32)).toMatchObject(failure('image_pull_failed'));
  });

  it('are found in init containers and sidecars as well', () => {
    const bad = waiting('InvalidImageName', 'bad');
    const normal = status('agent', waiting('PodInitializing'));
    expect(judge({ main: normal, init: status('setup', bad) }, 4)).toMatchObject(failure('image_invalid', 'setup'));
    expect(judge({ main: normal, sidecar: status('proxy', bad) }, 4)).toMatchObject(failure('image_invalid', 'proxy'));
  });
});

describe('containers that cannot be created or do not stay', () => {
  it('waits a short while for a missing Secret, then says which', () => {
    const main = status('agent', waiting('CreateContainerConfigError', 'secret "db" not found'));
    const events = [event('Pulled', 4), event('Failed', 5, 'Error: secret "db" not found')];
    expect(judge({ main }, 14, events)).toMatchObject({
      kind: 'waiting',
      message: expect.stringContaining('secret "db" not found'),
    });
    expect(judge({ main }, 15, events)).toMatchObject(failure('config_missing', /secret "db" not found/));
  });

  it('tells a missing ConfigMap, which only an event shows', () => {
    const main = status('agent', waiting('ContainerCreating'));
    const parts = { main, conditions: [scheduled(1)] };
    const text = 'MountVolume.SetUp failed for volume "windlass-agent" : configmap "windlass-agent-00ff" not found';
    const events = [
      event('FailedMount', 3, text, { involvedObject: { uid: 'u1', name: 'windlass-x' }, count: 4, lastTimestamp: at(30) }),
    ];
    expect(judge(parts, 62, events)).toMatchObject({
      kind: 'waiting',
      reason: 'storage',
      message: text,
      recheckAt: at(63).getTime(),
    });
    expect(judge(parts, 63, events)).toMatchObject(failure('config_missing'));
  });

  it('is a crash loop with the exit code and the last words', () => {
    const main = status('agent', waiting('CrashLoopBackOff', 'back-off 10s'), {
      restartCount: 2,
      lastState: ended(5, { message: 'boom' }),
    });
    expect(judge({ main }, 30)).toMatchObject({
      ...failure('crash_loop', /exit code 5 .*boom/),
      evidence: { exitCode: 5, container: 'agent' },
    });
  });

  it('is an early exit when it keeps ending with 0', () => {
    const main = status('agent', waiting('CrashLoopBackOff'), { restartCount: 2, lastState: ended(0) });
    expect(judge({ main }, 30)).toMatchObject(failure('exit_early'));
  });

  it('waits for the restart after a first plain crash', () => {
    expect(judge({ main: status('agent', ended(1, { reason: 'Error' })) }, 25)).toMatchObject({
      kind: 'waiting',
      reason: 'starting',
    });
  });

  it('C51: names the memory limit of a container that ran out of it', () => {
    const main = status('agent', waiting('CrashLoopBackOff'), { lastState: ended(137, { reason: 'OOMKilled' }) });
    expect(judge({ main }, 30)).toMatchObject({
      ...failure('oom_killed', /2Gi/),
      evidence: { memoryLimit: '2Gi', exitCode: 137 },
    });
  });

  it('says that the image lacks Node', () => {
    const main = status('agent', ended(127, { reason: 'Error', message: 'windlass: node not found\n' }));
    expect(judge({ main }, 22)).toMatchObject(failure('agent_runtime_missing', /node not found/));
    const noShell = 'exec: "/bin/sh": stat /bin/sh: no such file or directory';
    const start = status(
      'agent',
      ended(128, { reason: 'StartError', message: `failed to create shim task: ${noShell}: unknown` }),
    );
    expect(judge({ main: start }, 22)).toMatchObject(failure('agent_runtime_missing'));
  });

  it('fails on an init container that keeps failing, not on its first failure', () => {
    const main = status('agent', waiting('PodInitializing'));
    expect(judge({ main, init: status('setup', ended(1)) }, 22)).toMatchObject({ kind: 'waiting', reason: 'starting' });
    const init = status('setup', waiting('CrashLoopBackOff'), { restartCount: 2, lastState: ended(1) });
    expect(judge({ main, init }, 30)).toMatchObject(failure('crash_loop', 'setup'));
  });
});

describe('C50: Pods that are taken away', () => {
  const cases: [string, Parts, string][] = [
    [
      'evicted',
      { pod: { phase: 'Failed', reason: 'Evicted', message: 'The node was low on resource: memory.' } },
      'pod_disrupted',
    ],
    ['refused by the node', { pod: { phase: 'Failed', reason: 'OutOfmemory', message: 'not enough' } }, 'pod_disrupted'],
    [
      'preempted',
      { conditions: [scheduled(), condition('DisruptionTarget', 5, 'True', { reason: 'PreemptionByScheduler' })] },
      'pod_disrupted',
    ],
    [
      'on a tainted node',
      {
        conditions: [scheduled(), condition('DisruptionTarget', 5, 'True', { reason: 'DeletionByTaintManager' })],
        deleting: true,
      },
      'node_lost',
    ],
    ['on a lost node', { pod: { phase: 'Running', reason: 'NodeLost', message: 'Node which was running' } }, 'node_lost'],
    ['of unknown phase', { pod: { phase: 'Unknown' } }, 'node_lost'],
    ['deleted', { deleting: true }, 'pod_disrupted'],
  ];
  it.each(cases)('%s', (_name, parts, code) => {
    expect(judge(parts, 10)).toMatchObject({ kind: 'failed', code });
  });

  it('names node pressure', () => {
    const pod = { phase: 'Failed', reason: 'Evicted', message: 'The node was low on resource: memory.' };
    expect(judge({ pod }, 10)).toMatchObject(failure('pod_disrupted', /low on resource: memory/));
  });

  it('of which all containers ended are early exits, unless one says why', () => {
    expect(judge({ pod: { phase: 'Succeeded' } }, 10)).toMatchObject(failure('exit_early'));
    expect(judge({ pod: { phase: 'Failed' }, main: status('agent', ended(4)) }, 10)).toMatchObject(
      failure('exit_early', /exit code 4/),
    );
    const main = status('agent', ended(137, { reason: 'OOMKilled' }));
    expect(judge({ pod: { phase: 'Failed' }, main }, 10)).toMatchObject(failure('oom_killed'));
  });
});

describe('phases and their budgets', () => {
  const words = '0/3 nodes are available: 3 Insufficient cpu.';
  const unscheduled = [condition('PodScheduled', 0, 'False', { reason: 'Unschedulable', message: words })];

  it("C48: keeps the scheduler's words, until and at the deadline", () => {
    expect(judge({ conditions: unscheduled }, 60)).toEqual({
      kind: 'waiting',
      reason: 'scheduling',
      message: words,
      recheckAt: at(300).getTime(),
    });
    expect(judge({ conditions: unscheduled }, 300)).toMatchObject({
      ...failure('launch_deadline', /Insufficient cpu/),
      evidence: { phase: 'scheduling', budgetSeconds: 300 },
    });
  });

  it('C48: a triggered scale-up starts the wait for a node anew', () => {
    const events = [event('TriggeredScaleUp', 200, 'pod triggered scale-up')];
    expect(judge({ conditions: unscheduled }, 400, events)).toMatchObject({ kind: 'waiting', recheckAt: at(500).getTime() });
  });

  it('tells in the words of the claim why its volume does not come: at once of a class that does not exist, else at the deadline', () => {
    const message = '0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims. not found';
    const conditions = [condition('PodScheduled', 0, 'False', { message })];
    const said = (text: string) => [event('ProvisioningFailed', 4, text, { type: 'Warning' })];
    const absent = { claimEvents: said('storageclass.storage.k8s.io "fats" not found') };
    expect(judge({ conditions }, 33, [], absent)).toMatchObject({
      kind: 'waiting',
      reason: 'storage',
      recheckAt: at(34).getTime(),
    });
    const over = judge({ conditions }, 34, [], absent);
    expect(over).toMatchObject(failure('storage_failed', /"fats" not found/));
    expect(over).toMatchObject({ evidence: { claimEvents: [{ reason: 'ProvisioningFailed' }] } });
    const slow = { claimEvents: said('failed to provision volume: quota of the array is used up') };
    expect(judge({ conditions }, 599, [], slow)).toMatchObject({
      kind: 'waiting',
      message: expect.stringMatching(/quota of the array/),
    });
    expect(judge({ conditions }, 600, [], slow)).toMatchObject(failure('storage_failed', /quota of the array/));
    expect(judge({ conditions }, 600)).toMatchObject(failure('launch_deadline'));
  });

  it('counts an unbound claim as storage', () => {
    const message = '0/1 nodes are available: pod has unbound immediate PersistentVolumeClaims.';
    const conditions = [condition('PodScheduled', 0, 'False', { message })];
    expect(judge({ conditions }, 400)).toMatchObject({ kind: 'waiting', reason: 'storage', recheckAt: at(600).getTime() });
  });

  it('C47: a slow volume does not eat the time of the pull', () => {
    const creating = status('agent', waiting('ContainerCreating'));
    expect(
      judge({ main: creating, conditions: [scheduled(1), condition('PodReadyToStartContainers', 1, 'False')] }, 240),
    ).toMatchObject({
      reason: 'storage',
      recheckAt: at(601).getTime(),
    });
    const pulling = judge({ main: creating, conditions: [scheduled(1), placed(241)] }, 260, [event('Pulling', 242)]);
    expect(pulling).toMatchObject({ kind: 'waiting', reason: 'pulling', recheckAt: at(302).getTime() });
    const late = judge({ main: creating, conditions: [scheduled(1), placed(241)] }, 302, [event('Pulling', 242)]);
    expect(late).toMatchObject({ ...failure('launch_deadline'), evidence: { phase: 'pulling' } });
  });

  it('starts the start budget when the image is there', () => {
    const main = status('agent', waiting('ContainerCreating'));
    const events = [event('Pulling', 3), event('Pulled', 50)];
    expect(judge({ main }, 100, events)).toMatchObject({ kind: 'waiting', reason: 'starting', recheckAt: at(170).getTime() });
    expect(judge({ main }, 170, events)).toMatchObject({ evidence: { phase: 'starting' } });
  });

  it('without any event allows pull and start together', () => {
    const main = status('agent', waiting('ContainerCreating'));
    expect(judge({ main }, 100)).toMatchObject({ kind: 'waiting', reason: 'pulling', recheckAt: at(2 + 180).getTime() });
  });

  it("starts the main container's phases after the init containers", () => {
    const main = status('agent', waiting('PodInitializing'));
    const init = status('setup', { terminated: { exitCode: 0, finishedAt: at(500) } });
    expect(judge({ main, init }, 520)).toMatchObject({ kind: 'waiting', reason: 'pulling', recheckAt: at(680).getTime() });
  });

  it('counts no budget from before this run took the Pod up', () => {
    const main = status('agent', ended(1, { finishedAt: at(5000) }));
    const run = judge({ main }, 5001, [], { since: at(5000).getTime() });
    expect(run).toMatchObject({ kind: 'waiting', reason: 'starting', recheckAt: at(5120).getTime() });
  });
});

it('bounds and cleans what a hostile cluster says', () => {
  const message = `\u001b[31m${'x'.repeat(100_000)} password=hunter2`;
  const verdict = judge({ main: status('agent', waiting('InvalidImageName', message)) }, 5);
  const text = JSON.stringify(verdict);
  expect(text.length).toBeLessThan(8000);
  expect(text).not.toContain('hunter2');
  expect(text).not.toContain('\\u001b');
});
