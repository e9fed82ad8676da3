import { CoreV1Api, KubeConfig } from '@kubernetes/client-node';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import type { InstanceRecord } from '../../src/inventory/types.ts';
import { lossWrite } from '../../src/jobs/loss.ts';
import { goneLoss } from '../../src/kubernetes/pod-loss.ts';
import { type EmbeddedCluster, startCluster } from '../support/cluster.ts';
import { removePods, resumeSteps } from '../support/resume-steps.ts';
import { createWorld, type World, type WorldOptions } from '../support/world.ts';

let embedded: EmbeddedCluster;
beforeAll(async () => {
  embedded = await startCluster();
});
afterAll(async () => embedded?.close());

let count = 0;
let world: World;
let steps: ReturnType<typeof resumeSteps>;
const open = async (config: Record<string, unknown> = {}, more: Partial<WorldOptions> = {}) => {
  const all = { installation: `failing-${count++}`, ...config };
  world = await createWorld({ kubeconfig: embedded.kubeconfig, namespace: 'default', image: 'node:24', config: all, ...more });
  steps = resumeSteps(world);
  return world.worker();
};
afterEach(async () => {
  await removePods(world);
  await world.stop();
});

const kubeApi = () => {
  const config = new KubeConfig();
  config.loadFromFile(embedded.kubeconfig);
  return config.makeApiClient(CoreV1Api);
};

/** Writes to a record as a sweep would. */
const write = async (record: InstanceRecord, options: Parameters<World['operator']['inventory']['write']>[1]) => {
  const lease = await world.operator.inventory.tryLease(record.hash);
  if (lease === undefined) throw new Error('somebody holds the lease');
  await world.operator.inventory.write(lease, { ...options, release: true });
};
const garbled = async (record: InstanceRecord, names: readonly string[]) => {
  const value = await world.operator.keyring.encrypt('0'.repeat(64), record.hash);
  return { secrets: Object.fromEntries(names.map((name) => [name, value])) };
};
const podThere = async (record: InstanceRecord) => (await world.cluster.read('pods', record.pod?.name ?? ''))?.metadata?.uid;
const foreignPod = (name: string) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name, namespace: 'default', labels: { 'windlass.dev/installation': world.loaded.config.installation } },
  spec: {
    securityContext: { runAsNonRoot: true, runAsUser: 1000, seccompProfile: { type: 'RuntimeDefault' } },
    containers: [
      {
        name: 'sleeper',
        image: 'busybox:1',
        command: ['sleep', '600'],
        securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
      },
    ],
  },
});

describe('while no worker runs', () => {
  it('C93 nothing happens to what runs; the next worker finds the one Pod that was lost, and makes nothing anew', async () => {
    const worker = await open();
    const records = await Promise.all(['kept-1', 'kept-2', 'gone'].map((id) => steps.launch(id)));
    await worker.close();
    const gone = records[2] as InstanceRecord;
    await steps.deletePod(gone, 1);
    await expect.poll(() => podThere(gone)).toBeUndefined();
    await world.worker();
    expect((await steps.lost('gone')).failure).toMatchObject({ code: 'pod_disrupted', evidence: { uid: gone.pod?.uid } });
    for (const record of records.slice(0, 2)) {
      expect(await podThere(record)).toBe(record.pod?.uid);
      expect((await world.operator.inventory.read(record.instanceId))?.state).toBe('ready');
    }
    expect((await world.leftovers()).filter((name) => name.startsWith('pods/'))).toHaveLength(2);
  });
});

describe('a reconnect that fails', () => {
  it('while its Pod is healthy leaves the instance ready, with the failure to look at and the Pod in place', async () => {
    await open();
    const record = await steps.launch('refused');
    await write(record, await garbled(record, ['agentToken']));
    await world.operator.producer.reconnect('refused');
    const after = await world.until('refused', (current) => current?.failure?.attemptsLeft === 0);
    expect(after).toMatchObject({ state: 'ready', run: 2, readyAt: record.readyAt, pod: { uid: record.pod?.uid } });
    expect(after?.failure).toMatchObject({ code: 'handshake_failed', stage: 'connect', run: 2 });
    expect(await podThere(record)).toBe(record.pod?.uid);
    expect((await steps.events('refused', 'rolling_back')).length).toBe(0);
  });

  it('on a lost instance whose Pod lives after all goes back to lost, and takes neither Pod nor claim', async () => {
    await open();
    const record = await steps.launch('found');
    await write(record, { state: 'lost', set: { agent: null }, ...(await garbled(record, ['agentToken', 'agentNonce'])) });
    await world.operator.producer.reconnect('found');
    const after = await world.until('found', (current) => current?.state === 'lost' && current.failure?.attemptsLeft === 0);
    expect(after?.failure).toMatchObject({ code: 'handshake_failed' });
    expect(after).toMatchObject({ pod: { uid: record.pod?.uid }, workspace: { claimUid: record.workspace?.claimUid } });
    expect(await podThere(record)).toBe(record.pod?.uid);
    expect(Object.keys(await world.operator.inventory.secrets(record.hash)).sort()).toEqual(['agentNonce', 'agentToken']);
  });

  it('because something else took the name of the Pod touches neither that nor the claim, and works once it is gone', async () => {
    await open();
    const record = await steps.launch('taken');
    await world.exec('taken', ['/bin/sh', '-c', 'echo data > file']);
    await steps.deletePod(record, 1);
    await steps.lost('taken');
    await expect.poll(() => podThere(record)).toBeUndefined();
    const foreign = await world.cluster.create('pods', foreignPod(record.pod?.name ?? ''));
    await world.operator.producer.reconnect('taken');
    const failed = await world.until(
      'taken',
      (current) => current?.failure?.code === 'name_conflict' && current.state === 'lost',
    );
    expect(failed).toMatchObject({ rebuilds: 0, workspace: { claimUid: record.workspace?.claimUid } });
    expect(await podThere(record)).toBe(foreign.metadata?.uid);

    await world.cluster.remove('pods', record.pod?.name ?? '', { uid: foreign.metadata?.uid ?? '', graceSeconds: 0 });
    await expect.poll(() => podThere(record)).toBeUndefined();
    await world.operator.producer.reconnect('taken');
    expect(await world.ready('taken')).toMatchObject({ rebuilds: 1, workspace: { claimUid: record.workspace?.claimUid } });
    expect((await world.exec('taken', ['cat', 'file'])).stdout).toBe('data\n');
  });

  it('C28 because the lost Pod does not go waits, and no second Pod shares the claim meanwhile', async () => {
    await open({}, { image: 'fault.local/stuck-terminating' });
    const record = await steps.launch('stuck');
    await steps.deletePod(record);
    await steps.lost('stuck');
    await world.operator.producer.reconnect('stuck');
    const stage = (current: InstanceRecord | undefined) => current?.stages.find(({ name }) => name === 'pod');
    const waiting = await world.until('stuck', (current) => stage(current)?.wait === 'object_deleting');
    expect(waiting).toMatchObject({ state: 'launching', rebuilds: 0, pod: { uid: record.pod?.uid } });
    expect((await world.leftovers()).filter((name) => name.startsWith('pods/'))).toHaveLength(1);
    await steps.deletePod(record, 0);
    expect(await world.until('stuck', (current) => current?.state === 'ready')).toMatchObject({ rebuilds: 1 });
  });
});

describe('recovery.forceDeleteOnNodeLoss', () => {
  it('C28 lets a Pod of a lost node, and only such a one, be removed by force so that the rebuild can go on', async () => {
    await open({ recovery: { forceDeleteOnNodeLoss: true } }, { image: 'fault.local/stuck-terminating' });
    const record = await steps.launch('nodeless');
    const api = kubeApi();
    const name = record.pod?.name ?? '';
    await steps.deletePod(record);
    const taint = { type: 'DisruptionTarget', status: 'True', reason: 'DeletionByTaintManager', lastTransitionTime: new Date() };
    const { status } = await api.readNamespacedPod({ name, namespace: 'default' });
    const conditions = [...(status?.conditions ?? []), taint];
    await api.patchNamespacedPodStatus({
      name,
      namespace: 'default',
      body: [{ op: 'replace', path: '/status/conditions', value: conditions }],
    });
    await steps.lost('nodeless');
    await world.operator.producer.reconnect('nodeless');
    const after = await world.until('nodeless', (current) => current?.state === 'ready');
    expect(after).toMatchObject({ rebuilds: 1, workspace: { claimUid: record.workspace?.claimUid } });
    expect(after?.pod?.uid).not.toBe(record.pod?.uid);
  });
});

describe('recovery.onLost: rebuild', () => {
  it('makes a new Pod on the claim without being asked, once', async () => {
    await open({ recovery: { onLost: 'rebuild' } });
    const record = await steps.launch('auto', { secretEnv: { SECRET: 'kept-value' } });
    await steps.deletePod(record);
    const after = await world.until('auto', (current) => current?.state === 'ready' && current.rebuilds === 1);
    expect(after?.workspace?.claimUid).toBe(record.workspace?.claimUid);
    expect((await world.exec('auto', ['/bin/sh', '-c', 'printf %s "$SECRET"'])).stdout).toBe('kept-value');
    await steps.deletePod(after as InstanceRecord);
    await world.until('auto', (current) => current?.state === 'lost' && current.failure?.code === 'unrecoverable');
  });

  it('is done by the next worker when the one that wrote the loss died before it asked', async () => {
    const first = await open({ recovery: { onLost: 'rebuild' } });
    const record = await steps.launch('unasked');
    await first.close();
    await steps.deletePod(record, 1);
    // All that the first one came to.
    await write(record, lossWrite(record, goneLoss(record.pod!, []), await world.operator.inventory.now()));
    await world.worker();
    const after = await world.until('unasked', (current) => current?.state === 'ready' && current.rebuilds === 1);
    expect(after).toMatchObject({ run: 2, workspace: { claimUid: record.workspace?.claimUid } });
  });
});

describe('a retry', () => {
  it('of a failed instance is a new generation with the same request and the secrets that were sealed for it', async () => {
    await open();
    const hash = world.operator.inventory.hashOf('again');
    const foreign = await world.cluster.create('pods', foreignPod(`windlass-${hash}`));
    const request = { version: 1, instanceId: 'again', profile: 'node', secretEnv: { SECRET: 'kept-value' } };
    const first = await world.operator.producer.launch(request);
    await world.until('again', (record) => record?.state === 'failed');
    await world.cluster.remove('pods', foreign.metadata?.name ?? '', { uid: foreign.metadata?.uid ?? '', graceSeconds: 0 });
    const second = await world.operator.producer.retry('again');
    expect(second.generation).toBeGreaterThan(first.generation);
    await world.ready('again');
    expect((await world.exec('again', ['/bin/sh', '-c', 'printf %s "$SECRET"'])).stdout).toBe('kept-value');
    // The same request is still the same instance.
    expect(await world.operator.producer.launch(request)).toMatchObject({ generation: second.generation, deduplicated: true });
    await expect(world.operator.producer.retry('again')).rejects.toMatchObject({ code: 'instance_conflict' });
    await expect(world.operator.producer.retry('never')).rejects.toMatchObject({ code: 'instance_not_found' });
    const asked = world.operator.producer.reconnect('again', { owner: 'somebody-else' });
    await expect(asked).rejects.toMatchObject({ code: 'instance_not_found' });
  });
});
