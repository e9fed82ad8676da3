import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type InstanceRecord, type State, states } from '../../src/inventory/types.ts';
import { keys } from '../../src/kubernetes/ownership.ts';
import { claimName, podName } from '../../src/names.ts';
import { type FaultyCluster, startFaultyCluster } from '../support/fault-plan.ts';
import { connectHttp } from '../support/kube-http.ts';
import { recordEffects } from '../support/resume-steps.ts';
import { createWorld, type World } from '../support/world.ts';

const nowhere = `apiVersion: v1
kind: PodTemplate
template:
  spec:
    nodeSelector: { disk: none }
    containers: [{ name: agent, image: node:24 }]
`;
const theirs = 'claim-of-theirs';
const quotas = '/api/v1/namespaces/default/resourcequotas';

let embedded: FaultyCluster;
let world: World;
let api: Awaited<ReturnType<typeof connectHttp>>;
beforeAll(async () => {
  embedded = await startFaultyCluster();
  api = await connectHttp(embedded.kubeconfig);
  const managed = { mode: 'managed_pvc', size: '64Mi' };
  const profiles = {
    node: { podTemplateFile: 'profiles/node.yaml', workspace: managed },
    forwarded: { podTemplateFile: 'profiles/node.yaml', workspace: managed, handshake: 'port_forward' },
    'nowhere-yet': { podTemplate: nowhere, workspace: managed },
    'nowhere-theirs': {
      podTemplate: nowhere,
      budgets: { schedule: 2 },
      workspace: { mode: 'existing_claim', claimName: theirs },
    },
  };
  const config = { installation: 'cases', profiles };
  world = await createWorld({ kubeconfig: embedded.kubeconfig, namespace: 'default', image: 'node:24', config });
  await world.worker();
});
afterAll(async () => {
  await world?.stop();
  await embedded?.close();
});

const launch = (id: string, more: object = {}) =>
  world.operator.producer.launch({ version: 1, instanceId: id, profile: 'node', ...more });
const teardown = (id: string, more: object = {}) => world.operator.producer.teardown({ version: 1, instanceId: id, ...more });
const failed = async (id: string) => (await world.until(id, (record) => record?.state === 'failed')) as InstanceRecord;
const claimOf = (id: string) => world.cluster.read('persistentvolumeclaims', claimName(world.operator.inventory.hashOf(id)));
const podOf = (id: string) => world.cluster.read('pods', podName(world.operator.inventory.hashOf(id)));
const leftoversOf = async (id: string) =>
  (await world.leftovers()).filter((name) => name.includes(world.operator.inventory.hashOf(id)));

it('C01 lists that do not show a create for seconds make no second object: the name and the record decide, not a list', async () => {
  const hidden = (resource: string) => ({ verb: 'create', resource, fault: { hide_from_list_ms: 2000 } });
  const effects = recordEffects();
  await embedded.withFaults([hidden('pods'), hidden('persistentvolumeclaims')], async () => {
    await launch('seen late');
    expect(await launch('seen late')).toMatchObject({ deduplicated: true });
    const record = await world.ready('seen late');
    expect(await launch('seen late')).toMatchObject({ deduplicated: true, state: 'ready' });
    expect((await podOf('seen late'))?.metadata?.uid).toBe(record.pod?.uid);
  });
  const creates = effects.stop().filter((name) => /^kube\.create\.(pods|persistentvolumeclaims)$/.test(name));
  expect(creates.sort()).toEqual(['kube.create.persistentvolumeclaims', 'kube.create.pods']);
  await teardown('seen late');
  await world.gone('seen late');
});

describe('C06 a launch that fails in stage', () => {
  const call = (verb: string, resource: string, subresource?: string) => ({
    verb,
    resource,
    ...(subresource && { subresource }),
  });
  const steps: Readonly<Record<string, readonly object[]>> = {
    workspace: [call('create', 'persistentvolumeclaims')],
    pod: [call('create', 'pods')],
    bootstrap: [call('*', 'pods', 'exec')],
    connect: [call('*', 'pods', 'portforward')],
  };
  /** The times to live of every lease and every lock of a job that is there while this goes on; -1 = none. */
  async function timesOfLocks(during: () => Promise<unknown>): Promise<number[]> {
    const redis = new Redis(world.redis.url);
    const times: number[] = [];
    const scan = async () => {
      const keys = [...(await redis.keys('*:inventory}:lease:*')), ...(await redis.keys('*:lock'))];
      times.push(...(await Promise.all(keys.map((key) => redis.pttl(key)))));
    };
    try {
      let over = false;
      const done = during().finally(() => {
        over = true;
      });
      while (!over) await scan();
      await done;
    } finally {
      redis.disconnect();
    }
    // -2 = released between the two questions.
    return times.filter((time) => time !== -2);
  }

  it.each(Object.keys(steps))('%s holds no lease afterwards, and no lock is ever without an end', async (stage) => {
    const id = `thrown in ${stage}`;
    const hash = world.operator.inventory.hashOf(id);
    const message = 'User "worker" cannot create resource "any" in API group ""';
    const denied = { error: { code: 403, reason: 'Forbidden', message } };
    const name = stage === 'workspace' ? claimName(hash) : podName(hash);
    const rules = (steps[stage] ?? []).map((step) => ({ ...step, name, fault: denied }));
    const times = await timesOfLocks(() =>
      embedded.withFaults(rules, async () => {
        await launch(id, { profile: 'forwarded' });
        expect((await failed(id)).failure).toMatchObject({ stage, code: 'permission_denied' });
      }),
    );
    expect(times.length).toBeGreaterThan(0);
    expect(Math.min(...times)).toBeGreaterThanOrEqual(0);
    // The longer of the two: that of BullMQ's lock.
    expect(Math.max(...times)).toBeLessThanOrEqual(4000);
    expect(await world.operator.inventory.leaseHolder(hash)).toBeUndefined();
    expect(await leftoversOf(id)).toEqual([]);
  });
});

describe('C16 a teardown of an instance that is', () => {
  const named = (id: string) => podName(world.operator.inventory.hashOf(id));
  const held = 'example.test/held';
  const holding = { mutate: [{ op: 'add', path: '/metadata/finalizers', value: [held] }] };
  const broken = { error: { code: 500, reason: 'InternalError', message: 'no etcd' } };
  const letGo = (id: string) => world.cluster.patch('pods', named(id), { metadata: { finalizers: null } });
  const inState = (id: string, state: State) => world.until(id, (record) => record?.state === state);
  const ready = async (id: string) => {
    await launch(id);
    return world.ready(id);
  };
  /** Gets an instance there; what it gives back is done after the teardown was asked for. */
  const reach: Record<State, (id: string) => Promise<(() => Promise<unknown>) | undefined>> = {
    async requested(id) {
      // Between two attempts, the first of which met this.
      await embedded.withFaults([{ verb: 'create', resource: 'pods', name: named(id), fault: broken }], async () => {
        await launch(id);
        await inState(id, 'requested');
      });
      return undefined;
    },
    async launching(id) {
      await launch(id, { profile: 'nowhere-yet' });
      await inState(id, 'launching');
      return undefined;
    },
    async ready(id) {
      await ready(id);
      return undefined;
    },
    async lost(id) {
      const { pod } = await ready(id);
      await world.cluster.remove('pods', pod?.name ?? '', { uid: pod?.uid ?? '', graceSeconds: 1 });
      await inState(id, 'lost');
      return undefined;
    },
    async suspended(id) {
      await ready(id);
      await teardown(id, { keepWorkspace: true });
      await inState(id, 'suspended');
      return undefined;
    },
    async removing(id) {
      await ready(id);
      await world.cluster.patch('pods', named(id), { metadata: { finalizers: [held] } });
      await teardown(id);
      await inState(id, 'removing');
      return () => letGo(id);
    },
    async rolling_back(id) {
      await embedded.withFaults([{ verb: 'create', resource: 'pods', name: named(id), fault: holding }], async () => {
        await launch(id, { prepare: 'exit 9' });
        await inState(id, 'rolling_back');
      });
      return () => letGo(id);
    },
    async failed(id) {
      await launch(id, { prepare: 'exit 9' });
      await inState(id, 'failed');
      return undefined;
    },
    async cleanup_pending(id) {
      await embedded.withFaults([{ verb: 'delete', resource: 'pods', name: named(id), fault: broken }], async () => {
        await launch(id, { prepare: 'exit 9' });
        await inState(id, 'cleanup_pending');
      });
      return undefined;
    },
  };
  it.each(states)('%s gets to gone, and nothing is left', async (state) => {
    const id = `teardown when ${state}`;
    const afterwards = await reach[state](id);
    await teardown(id);
    await afterwards?.();
    await world.gone(id, 80);
    expect(await leftoversOf(id)).toEqual([]);
  });
});

it.each([
  ['persistentvolumeclaims', 'storage_failed'],
  ['pods', 'template_rejected'],
])('C21 a create of %s that fails leaves nothing of what was made before, and the next run is clean', async (resource, code) => {
  const id = `fails at ${resource}`;
  const fault = { error: { code: 422, reason: 'Invalid', message: 'it is invalid' } };
  await embedded.withFaults([{ verb: 'create', resource, nth: 1, fault }], async () => {
    await launch(id);
    const record = await failed(id);
    expect(record).toMatchObject({ pod: null, workspace: null, failure: { code, attemptsLeft: 0 } });
  });
  expect(await leftoversOf(id)).toEqual([]);
  await world.operator.producer.retry(id);
  await world.ready(id);
  await teardown(id);
  await world.gone(id);
  expect(await leftoversOf(id)).toEqual([]);
});

it('C25 a claim that was there before stays when the Pod cannot start', async () => {
  const spec = { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '64Mi' } } };
  const claim = await world.cluster.create('persistentvolumeclaims', { metadata: { name: theirs }, spec });
  await launch('nowhere-theirs', { profile: 'nowhere-theirs' });
  expect((await failed('nowhere-theirs')).failure).toMatchObject({ code: 'launch_deadline' });
  expect(await podOf('nowhere-theirs')).toBeUndefined();
  const kept = await world.cluster.read('persistentvolumeclaims', theirs);
  expect(kept?.metadata).toMatchObject({ uid: claim.metadata?.uid });
  expect(kept?.metadata?.deletionTimestamp).toBeUndefined();
});

it('C30 C32 a kept claim is marked as retained, serves the next launch under a full quota, and goes with a plain teardown', async () => {
  await launch('keeps');
  const first = await world.ready('keeps');
  await teardown('keeps', { keepWorkspace: true });
  await world.until('keeps', (record) => record?.state === 'suspended');
  expect((await claimOf('keeps'))?.metadata).toMatchObject({
    uid: first.workspace?.claimUid,
    annotations: { [keys.retained]: 'true' },
  });
  // No claim may be made any more; the one that is there is not asked for again.
  await api.call('POST', quotas, { metadata: { name: 'claims' }, spec: { hard: { persistentvolumeclaims: '0' } } });
  try {
    await launch('keeps');
    expect((await world.ready('keeps')).workspace?.claimUid).toBe(first.workspace?.claimUid);
  } finally {
    await api.call('DELETE', `${quotas}/claims`);
  }
  await teardown('keeps');
  await world.gone('keeps');
  expect(await claimOf('keeps')).toBeUndefined();
});

describe('C53 a create that is forbidden', () => {
  it('by a quota waits for it, burns no attempt, and goes on once there is room', async () => {
    await api.call('POST', quotas, { metadata: { name: 'none' }, spec: { hard: { pods: '0' } } });
    await launch('quota');
    await world.until('quota', (record) => record?.stages.some((stage) => stage.wait === 'quota_exceeded') ?? false);
    await api.call('DELETE', `${quotas}/none`);
    expect(await world.ready('quota')).toMatchObject({ failure: null, run: 1 });
    const types = (await world.operator.inventory.events('quota', 0, 500)).map(({ type }) => type);
    expect(types.filter((type) => ['retrying', 'rolling_back', 'failed'].includes(type))).toEqual([]);
    await teardown('quota');
    await world.gone('quota');
  });

  it('by the lack of a right fails at once and names the verb', async () => {
    const message = 'pods is forbidden: User "worker" cannot create resource "pods" in API group "" in the namespace "default"';
    const fault = { error: { code: 403, reason: 'Forbidden', message } };
    await embedded.withFaults([{ verb: 'create', resource: 'pods', nth: 1, fault }], async () => {
      await launch('no right');
      expect((await failed('no right')).failure).toMatchObject({
        code: 'permission_denied',
        attemptsLeft: 0,
        message: expect.stringContaining('cannot create resource "pods"'),
      });
    });
    expect(await leftoversOf('no right')).toEqual([]);
  });
});
