import type { CoreV1Event, V1Pod } from '@kubernetes/client-node';
import { describe, expect, it } from 'vitest';
import type { InstanceRecord, PodRecord } from '../../../src/inventory/types.ts';
import { findingOf, lookAfter } from '../../../src/jobs/lost.ts';
import { howResumed, rebuilds, resumes } from '../../../src/jobs/resume.ts';
import type { StageContext } from '../../../src/jobs/stage.ts';
import { takeUp } from '../../../src/jobs/take-up.ts';

const recorded: PodRecord = {
  name: 'windlass-x',
  uid: 'u1',
  node: 'n1',
  ip: '',
  createdByGeneration: 7,
  main: { name: 'agent', id: 'containerd://1' },
};
const record = (fields: Partial<InstanceRecord> = {}): InstanceRecord =>
  ({
    state: 'ready',
    before: 'requested',
    generation: 7,
    run: 2,
    app: '',
    exitCode: null,
    creates: {},
    stages: [],
    pod: recorded,
    ...fields,
  }) as InstanceRecord;

const running = (more: { id?: string; restarts?: number; status?: object; deleting?: boolean } = {}): V1Pod => ({
  metadata: { name: 'windlass-x', uid: 'u1', ...(more.deleting ? { deletionTimestamp: new Date(0) } : {}) },
  spec: { nodeName: 'n1', containers: [{ name: 'agent' }] },
  status: {
    phase: 'Running',
    containerStatuses: [
      {
        name: 'agent',
        image: '',
        imageID: '',
        ready: true,
        restartCount: more.restarts ?? 0,
        containerID: more.id ?? 'containerd://1',
        state: { running: {} },
      },
    ],
    ...more.status,
  },
});
const disrupted = (reason: string) => ({ conditions: [{ type: 'DisruptionTarget', status: 'True', reason }] });
const finding = (pod: V1Pod | undefined, of = record(), events: CoreV1Event[] = []) => findingOf(of, recorded, pod, events);

describe('what a Pod says about the ready record that names it', () => {
  it.each<[string, V1Pod | undefined, string | undefined]>([
    ['runs as it was left', running(), undefined],
    ['is not there', undefined, 'pod_disrupted'],
    ['is being deleted', running({ deleting: true }), 'pod_disrupted'],
    ['was evicted', running({ status: { phase: 'Failed', reason: 'Evicted', message: 'low on memory' } }), 'pod_disrupted'],
    ['is of a node that does not answer', running({ status: { reason: 'NodeLost' } }), 'node_lost'],
    ['is in phase Unknown', running({ status: { phase: 'Unknown' } }), 'node_lost'],
    ['is deleted by the taint manager', running({ deleting: true, status: disrupted('DeletionByTaintManager') }), 'node_lost'],
    [
      'is only announced to be disrupted, which may be taken back',
      running({ status: disrupted('EvictionByEvictionAPI') }),
      undefined,
    ],
    ['is not ready at the moment', running({ status: { conditions: [{ type: 'Ready', status: 'False' }] } }), undefined],
  ])('that %s', (_what, pod, code) => {
    const found = finding(pod);
    expect(found.kind === 'lost' ? found.loss.code : undefined).toBe(code);
    expect(found.kind).toBe(code === undefined ? 'fine' : 'lost');
  });

  it('C51 that ended as a whole out of memory is lost with that code and the limit behind it', () => {
    const terminated = { exitCode: 137, reason: 'OOMKilled', finishedAt: new Date(1000), startedAt: new Date(0) };
    const status = {
      phase: 'Failed',
      containerStatuses: [{ name: 'agent', image: '', imageID: '', ready: false, restartCount: 0, state: { terminated } }],
    };
    const found = finding(running({ status }));
    expect(found).toMatchObject({ kind: 'lost', loss: { code: 'oom_killed' } });
  });

  it('C50 that is gone is told with what the cluster said of it last', () => {
    const event = { reason: 'Preempted', message: 'by another\u001b[31m Pod', metadata: {}, involvedObject: {} } as CoreV1Event;
    const found = finding(undefined, record(), [event]);
    expect(found).toMatchObject({
      kind: 'lost',
      loss: { evidence: { uid: 'u1', node: 'n1', events: [{ reason: 'Preempted' }] } },
    });
    expect(JSON.stringify(found)).not.toContain('\\u001b');
  });

  it('another start of its container is a restart, also when the kubelet lost count', () => {
    expect(finding(running({ id: 'containerd://2', restarts: 1 }))).toEqual({
      kind: 'restarted',
      id: 'containerd://2',
      restarts: 1,
    });
    expect(finding(running({ id: 'containerd://2' }))).toMatchObject({ kind: 'restarted', restarts: 0 });
  });

  it('an app that ran to its end is no loss; one whose Pod was taken away is', () => {
    const app = record({ app: 'job' });
    const ended = (exitCode: number, status: object = {}, more: object = {}): V1Pod => {
      const pod = running({ status, ...more });
      const main = {
        name: 'agent',
        image: '',
        imageID: '',
        ready: false,
        restartCount: 0,
        state: { terminated: { exitCode, reason: 'Error' } },
      };
      return {
        ...pod,
        spec: { ...pod.spec, containers: [{ name: 'agent' }], restartPolicy: 'Never' },
        status: { ...pod.status, containerStatuses: [main] },
      };
    };
    expect(finding(ended(0, { phase: 'Succeeded' }), app)).toEqual({
      kind: 'finished',
      finish: { exitCode: 0, reason: 'Error' },
    });
    expect(finding(ended(3, { phase: 'Failed' }), app)).toMatchObject({ kind: 'finished', finish: { exitCode: 3 } });
    // A sidecar goes on.
    expect(finding(ended(3), app)).toMatchObject({ kind: 'finished', finish: { exitCode: 3 } });
    expect(finding(ended(137, { phase: 'Failed', reason: 'Evicted' }), app)).toMatchObject({
      kind: 'lost',
      loss: { code: 'pod_disrupted' },
    });
    expect(finding(ended(143, {}, { deleting: true }), app).kind).toBe('lost');
    expect(finding({ ...ended(1), spec: { containers: [{ name: 'agent' }], restartPolicy: 'Always' } }).kind).not.toBe(
      'finished',
    );
    // Once known it stays, also when the cluster has collected the Pod.
    expect(finding(undefined, record({ app: 'job', exitCode: 0, agent: null })).kind).toBe('fine');
  });

  it('an agent whose command has ended is looked after as before: it may be lost, or its container started anew', () => {
    const agent = { id: 'x', port: 8765, transport: 'port_forward', state: 'healthy' } as const;
    const through = record({ exitCode: 0, agent });
    expect(finding(undefined, through).kind).toBe('lost');
    expect(finding(running({ id: 'other', restarts: 1 }), through).kind).toBe('restarted');
    expect(finding(running(), through).kind).toBe('fine');
  });
});

describe('a run', () => {
  it.each<[string, Partial<InstanceRecord>, boolean]>([
    ['a first launch', { state: 'launching', before: 'requested' }, false],
    ['a launch on a kept workspace', { state: 'launching', before: 'suspended' }, false],
    ['a suspended instance that was lost once', { state: 'suspended', before: 'lost' }, false],
    ['a ready instance', { state: 'ready' }, true],
    ['a lost one', { state: 'lost' }, true],
    ['a lost one under way', { state: 'launching', before: 'lost' }, true],
    ['a lost one on its way back', { state: 'rolling_back', before: 'lost' }, true],
  ])('on %s resumes: %s', (_what, fields, expected) => {
    expect(resumes(record(fields))).toBe(expected);
  });

  it('rebuilds only with a create intent of its own: an earlier rebuild is what it found', () => {
    const pods = { kind: 'pods', name: 'p', nonce: 'n', generation: 7, sentAt: 1, open: false } as const;
    const stages = [{ name: 'pod', state: 'done', checkpoint: 'pod_kept' }] as const;
    expect(rebuilds(record({ creates: { pods } }))).toBe(false);
    expect(rebuilds(record({ run: 3, creates: { pods: { ...pods, run: 2 } } }))).toBe(false);
    expect(rebuilds(record({ creates: { pods: { ...pods, run: 2 } } }))).toBe(true);
    expect(howResumed(record({ creates: { pods: { ...pods, run: 2 } }, stages }))).toBe('rebuilt');
    expect(howResumed(record({ stages }))).toBe('kept');
    expect(howResumed(record({ stages: [{ name: 'pod', state: 'done', checkpoint: 'pod_restarted' }] }))).toBe('restarted');
  });
});

describe('a run that finds the Pod gone before the watch has told', () => {
  it('marks the claim as kept before it writes the loss: should Redis be lost then, a recovery keeps the work', async () => {
    const workspace = { mode: 'managed_pvc', claimName: 'windlass-x-workspace', claimUid: 'c1', created: true };
    let current = record({ instanceId: 'x', hash: 'x', rebuilds: 0, workspace } as Partial<InstanceRecord>);
    const done: string[] = [];
    const context = {
      record: () => current,
      now: () => 0,
      stageSignal: new AbortController().signal,
      lease: { assertHeld: () => undefined },
      config: { installation: 'test', recovery: { maxRebuilds: 1 } },
      profile: { mainContainer: 'agent', workspace: { mode: 'managed_pvc' } },
      keyring: { nonceKey: () => new Uint8Array(32) },
      cluster: {
        pods: { eventsOf: () => [] },
        read: async () => undefined,
        patch: async (kind: string, name: string, body: object) => void done.push(`${kind} ${name} ${JSON.stringify(body)}`),
      },
      save: async ({ state, set }: { state?: InstanceRecord['state']; set?: Partial<InstanceRecord> }) => {
        current = { ...current, ...set, ...(state === undefined ? {} : { state }) };
        done.push(`state ${current.state}`);
      },
    } as unknown as StageContext;
    expect(await takeUp(context)).toBeUndefined();
    const mark = '{"metadata":{"uid":"c1","annotations":{"windlass.dev/retained":"true"}}}';
    expect(done.slice(0, 2)).toEqual([`persistentvolumeclaims windlass-x-workspace ${mark}`, 'state lost']);
  });
});

describe('a worker that writes down what it saw', () => {
  const look = async (records: readonly InstanceRecord[], cached: V1Pod, now: V1Pod) => {
    const written: unknown[] = [];
    const reads = [...records];
    const lease = { held: () => true, assertHeld: () => undefined, release: async () => undefined };
    const inventory = {
      readByHash: async () => reads.shift(),
      tryLease: async () => lease,
      now: async () => 0,
      write: async (_lease: unknown, options: unknown) => void written.push(options),
    };
    const pods = { get: () => cached, eventsOf: () => [] };
    const cluster = { name: 'default', namespace: 'ns', pods, read: async () => now };
    const parts = { inventory, log: {}, config: { retention: { finishedSeconds: 1 } } };
    type Look = Parameters<typeof lookAfter>;
    const found = await lookAfter(parts as unknown as Look[0], cluster as unknown as Look[1], 'x');
    return { found, written };
  };
  const placed = (more: Partial<InstanceRecord>) =>
    record({ hash: 'x', cluster: 'default', namespace: 'ns', agent: null, ...more });

  it('after another one has: the end of an app is told once', async () => {
    const ended = running({ status: { containerStatuses: undefined } });
    const status = { name: 'agent', state: { terminated: { exitCode: 3, reason: 'Error' } } };
    const over = { ...ended, spec: { ...ended.spec, restartPolicy: 'Never' }, status: { containerStatuses: [status] } } as V1Pod;
    const seen = [placed({ expiresAt: 0 }), placed({ expiresAt: 1000, exitCode: 3 })];
    expect(await look(seen, over, over)).toEqual({ found: 'settled', written: [] });
  });

  it('behind a watch that lags: an earlier container than the recorded one is no restart', async () => {
    const second = placed({ restartCount: 1, pod: { ...recorded, main: { name: 'agent', id: 'containerd://2' } } });
    const now = running({ id: 'containerd://2', restarts: 1 });
    expect(await look([second, second], running(), now)).toEqual({ found: 'settled', written: [] });
  });
});
