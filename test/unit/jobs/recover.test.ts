import type { V1ContainerState, V1PersistentVolumeClaim, V1Pod } from '@kubernetes/client-node';
import { describe, expect, it } from 'vitest';
import { configSchema } from '../../../src/config/schema.ts';
import { type Rebuild, rebuildRecord } from '../../../src/jobs/recover-record.ts';
import { judgeLost, judgeSilent, type LostObjects } from '../../../src/jobs/recover-verdict.ts';
import { keys } from '../../../src/kubernetes/ownership.ts';
import type { Cluster } from '../../../src/kubernetes/port.ts';

const hash = 'a'.repeat(20);
const created = new Date('2026-01-01T00:00:00Z');
const deleted = { deletionTimestamp: created };

interface PodFacts {
  readonly meta?: object;
  readonly state?: V1ContainerState;
  readonly restartCount?: number;
  readonly agent?: boolean;
  readonly phase?: string;
  readonly disrupted?: boolean;
  readonly generation?: number;
  readonly removing?: string;
}
const pod = ({
  meta = {},
  state,
  restartCount = 0,
  agent = true,
  phase = 'Running',
  disrupted = false,
  generation = 100,
  removing,
}: PodFacts): V1Pod => ({
  metadata: {
    name: `windlass-${hash}`,
    uid: 'pod-1',
    creationTimestamp: created,
    annotations: {
      [keys.generation]: String(generation),
      [keys.nonce]: 'n',
      ...(removing === undefined ? {} : { [keys.removing]: removing }),
    },
    ...meta,
  },
  spec: { containers: [{ name: 'agent' }], nodeName: 'node-1', volumes: agent ? [{ name: 'windlass-run', emptyDir: {} }] : [] },
  status: {
    phase,
    podIP: '10.0.0.1',
    ...(state === undefined
      ? {}
      : { containerStatuses: [{ name: 'agent', state, restartCount, image: '', imageID: '', ready: true }] }),
    conditions: disrupted ? [{ type: 'DisruptionTarget', status: 'True' }] : [],
  },
});
const claim = (annotations: Record<string, string> = {}, meta: object = {}): V1PersistentVolumeClaim => ({
  metadata: {
    name: `windlass-${hash}-workspace`,
    uid: 'claim-1',
    creationTimestamp: created,
    annotations: { [keys.generation]: '100', [keys.nonce]: 'n', ...annotations },
    ...meta,
  },
});
const running: V1ContainerState = { running: { startedAt: created } };
const ended = (exitCode: number): V1ContainerState => ({ terminated: { exitCode, reason: 'Completed' } });
const finished = (facts: PodFacts): V1Pod => {
  const made = pod({ ...facts, agent: false });
  return { ...made, spec: { containers: [], ...made.spec, restartPolicy: 'Never' } };
};
const kept = { [keys.retained]: 'true' };
const gone = { kind: 'removing', keepWorkspace: false };
const objects = (fields: Partial<LostObjects>): LostObjects => ({
  pod: undefined,
  claim: undefined,
  mainContainer: 'agent',
  ...fields,
});

describe('what an instance without a record is', () => {
  it.each<[string, Partial<LostObjects>, object]>([
    ['a claim kept on purpose', { claim: claim(kept) }, { kind: 'suspended' }],
    ['the rest of a removal', { claim: claim() }, gone],
    ['a claim on its way out', { claim: claim(kept, deleted) }, gone],
    [
      'a Pod on its way out',
      { pod: pod({ meta: deleted, state: running }), claim: claim() },
      { ...gone, rule: 'pod_being_deleted' },
    ],
    [
      'a Pod on its way out, the workspace stays',
      { pod: pod({ meta: deleted, state: running }), claim: claim(kept) },
      { kind: 'removing', keepWorkspace: true },
    ],
    [
      'a Pod that a node drain takes away is no teardown',
      { pod: pod({ meta: deleted, state: running, disrupted: true }), claim: claim() },
      { kind: 'lost' },
    ],
    ['an evicted Pod', { pod: pod({ phase: 'Failed' }), claim: claim() }, { kind: 'lost' }],
    ['an evicted Pod with nothing else', { pod: pod({ phase: 'Failed' }) }, gone],
    ['a Pod that runs', { pod: pod({ state: running }), claim: claim() }, { kind: 'ask' }],
    ['a Pod that runs without an agent of ours', { pod: pod({ state: running, agent: false }) }, { kind: 'ready' }],
    [
      'an app that has come to its end',
      { pod: finished({ phase: 'Succeeded', state: ended(0) }) },
      { kind: 'ready', rule: 'finished' },
    ],
    [
      'an app that ended with a failure, beside its claim',
      { pod: finished({ phase: 'Failed', state: ended(3) }), claim: claim() },
      { kind: 'ready', rule: 'finished' },
    ],
    [
      'an app that a node drain ended',
      { pod: finished({ phase: 'Failed', state: ended(137), disrupted: true }), claim: claim() },
      { kind: 'lost' },
    ],
    [
      'a Pod between two restarts',
      { pod: pod({ state: { waiting: { reason: 'CrashLoopBackOff' } }, restartCount: 3 }), claim: claim() },
      { kind: 'lost' },
    ],
    [
      'a Pod whose teardown had begun',
      { pod: pod({ state: running, removing: 'remove' }), claim: claim(kept) },
      { ...gone, rule: 'teardown_begun' },
    ],
    [
      'a Pod whose teardown had begun, the workspace stays',
      { pod: pod({ state: running, removing: 'keep', disrupted: true }), claim: claim() },
      { kind: 'removing', keepWorkspace: true },
    ],
    ['a Pod that never ran', { pod: pod({ phase: 'Pending' }), claim: claim() }, { ...gone, rule: 'never_bootstrapped' }],
    [
      'a Pod that never ran on a workspace of before',
      { pod: pod({ phase: 'Pending', generation: 200 }), claim: claim() },
      { kind: 'removing', keepWorkspace: true },
    ],
  ])('%s', (_name, given, expected) => {
    expect(judgeLost(objects(given))).toMatchObject(expected);
  });

  it.each<[string, Partial<LostObjects>, object]>([
    ['was never set up', { pod: pod({ state: running }), claim: claim() }, gone],
    [
      'was never set up, on a workspace of before',
      { pod: pod({ state: running, generation: 200 }), claim: claim() },
      { kind: 'removing', keepWorkspace: true },
    ],
    [
      'was set up before its container restarted',
      { pod: pod({ state: running, restartCount: 1 }), claim: claim() },
      { kind: 'lost' },
    ],
  ])('a Pod whose agent does not answer: %s', (_name, given, expected) => {
    expect(judgeSilent(objects(given))).toMatchObject(expected);
  });
});

describe('the rebuilt record', () => {
  const config = configSchema.parse({
    clusters: { c: { authMode: 'in_cluster', namespace: 'ns' } },
    profiles: { node: { podTemplate: 'x', workspace: { mode: 'empty_dir' }, lifetime: { maxSeconds: 7200 } } },
    apps: { shell: { image: 'i' } },
    secrets: {
      sealing: [{ id: 's', publicKey: { kty: 'EC', crv: 'P-256', x: 'x', y: 'y' }, privateKeyEnv: 'S' }],
      atRest: [{ id: 'k', keyEnv: 'K' }],
    },
  });
  const identity = { installation: 'i', instanceId: 'id', hash, owner: 'ann', cluster: 'c', profile: 'node', taskId: 't' };
  const rebuild = (fields: Partial<Rebuild>) =>
    rebuildRecord({
      ...objects({ pod: pod({ state: running }), claim: claim() }),
      config,
      cluster: { name: 'c', namespace: 'ns' } as Cluster,
      identity,
      state: { kind: 'ready', rule: 'running' },
      agent: { id: 'id', port: 8765, transport: 'port_forward', state: 'healthy' },
      now: created.getTime() + 60_000,
      stages: ['workspace', 'pod'],
      secrets: { agentToken: 'sealed' },
      ...fields,
    });

  it('has all that the objects tell, and names what they do not', () => {
    const { fields, secrets, owner, events } = rebuild({});
    expect([owner, secrets]).toEqual(['ann', { agentToken: 'sealed' }]);
    expect(events).toMatchObject([{ type: 'recovered', missing: ['env', 'prepare', 'secretEnv'] }]);
    expect(fields).toMatchObject({
      state: 'ready',
      intent: 'present',
      generation: 100,
      profile: 'node',
      app: '',
      namespace: 'ns',
      request: {
        payload: { version: 1, instanceId: 'id', owner: 'ann', cluster: 'c', profile: 'node', taskId: 't' },
        requestHash: '',
      },
      pod: { uid: 'pod-1', node: 'node-1', ip: '10.0.0.1', createdByGeneration: 100 },
      workspace: { mode: 'managed_pvc', claimUid: 'claim-1', created: true, createdByGeneration: 100 },
      creates: { pods: { uid: 'pod-1', nonce: 'n', open: false }, persistentvolumeclaims: { uid: 'claim-1' } },
      createdAt: created.getTime(),
      recovered: true,
      missing: ['env', 'prepare', 'secretEnv'],
    });
    expect(fields.stages?.map(({ state }) => state)).toEqual(['done', 'done']);
  });

  it('of an app that is through has its result, told once, and is kept as long as finished ones are', () => {
    const through = finished({ phase: 'Failed', state: ended(3) });
    const now = created.getTime() + 60_000;
    const long = { ...identity, profile: 'shell' };
    const { fields, events } = rebuild({ pod: through, claim: undefined, agent: null, identity: long, now });
    expect(fields).toMatchObject({ state: 'ready', app: 'shell', agent: null, exitCode: 3 });
    expect(fields.expiresAt).toBe(now + config.retention.finishedSeconds * 1000);
    expect(events.map(({ type }) => type)).toEqual(['recovered', 'command.exited']);
  });

  it.each<[string, Partial<Rebuild>, number]>([
    ['as the profile says', {}, created.getTime() + 7_200_000],
    [
      'as the launch said',
      {
        pod: pod({
          state: running,
          meta: { annotations: { [keys.generation]: '100', [keys.lifetime]: '{"maxSeconds":10800}' } },
        }),
      },
      created.getTime() + 10_800_000,
    ],
    ['an hour from now at least', { now: created.getTime() + 7_000_000 }, created.getTime() + 7_000_000 + 3_600_000],
    [
      'as long as suspended ones are kept',
      { state: { kind: 'suspended', rule: 'r' }, pod: undefined },
      created.getTime() + 60_000 + 2_592_000_000,
    ],
  ])('ends %s', (_name, given, expected) => {
    expect(rebuild(given).fields.expiresAt).toBe(expected);
  });

  it('of a half-done removal asks for its end; an app is told from a profile', () => {
    const { fields } = rebuild({
      state: { kind: 'removing', rule: 'pod_being_deleted', keepWorkspace: true },
      identity: { ...identity, profile: 'shell' },
    });
    expect(fields).toMatchObject({
      state: 'removing',
      intent: 'suspended',
      removeUpTo: 100,
      removal: { keepWorkspace: true },
      app: 'shell',
      profile: '',
    });
  });

  it('knows a workspace of the Pod alone and a claim of somebody else', () => {
    expect(rebuild({ claim: undefined }).fields.workspace).toMatchObject({ mode: 'empty_dir', created: false });
    const theirs = pod({ state: running });
    theirs.spec?.volumes?.push({ name: 'windlass-workspace', persistentVolumeClaim: { claimName: 'theirs' } });
    expect(rebuild({ claim: undefined, pod: theirs }).fields.workspace).toMatchObject({
      mode: 'existing_claim',
      claimName: 'theirs',
      created: false,
    });
    const otherClaim = { metadata: { name: 'theirs', uid: 'uid-theirs' } };
    expect(rebuild({ claim: undefined, pod: theirs, otherClaim }).fields.workspace).toMatchObject({ claimUid: 'uid-theirs' });
  });
});
