import { copyFile, mkdtemp, rename, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { LoadedConfig } from '../../src/config/load.ts';
import type { ClusterConfig, ProfileConfig } from '../../src/config/schema.ts';
import { startWorker, type WorkerHandle } from '../../src/main.ts';
import { type EmbeddedCluster, startCluster } from '../support/cluster.ts';
import { connectHttp } from '../support/kube-http.ts';
import { recordEffects, removePods, resumeSteps } from '../support/resume-steps.ts';
import { createWorld, type World } from '../support/world.ts';

let dir: string;
let embedded: EmbeddedCluster;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'windlass-changed-'));
  embedded = await startCluster();
});
afterAll(async () => {
  await embedded?.close();
  await rm(dir, { recursive: true, force: true });
});

let count = 0;
let world: World;
let steps: ReturnType<typeof resumeSteps>;
let first: WorkerHandle;
let later: WorkerHandle | undefined;
beforeEach(async () => {
  // Read through a file of its own, which the later worker does not have any more.
  const kubeconfigPath = join(dir, `kubeconfig-${count}`);
  await copyFile(embedded.kubeconfig, kubeconfigPath);
  const clusters = { default: { authMode: 'kubeconfig', kubeconfigPath, namespace: 'default' } };
  const config = { installation: `changed-${count++}`, clusters };
  world = await createWorld({ kubeconfig: embedded.kubeconfig, namespace: 'default', image: 'node:24', config });
  steps = resumeSteps(world);
  first = await world.worker();
});
afterEach(async () => {
  await later?.close();
  later = undefined;
  await removePods(world);
  await world.stop();
});

/** A worker that is configured otherwise takes over. */
async function takeOver(change: { profiles?: Record<string, ProfileConfig>; cluster?: Partial<ClusterConfig>; image?: string }) {
  await first.close();
  const { config, templates } = world.loaded;
  const base = config.clusters.default as ClusterConfig;
  const cluster = { ...base, kubeconfigPath: embedded.kubeconfig, ...change.cluster } as ClusterConfig;
  const changed: LoadedConfig = {
    ...world.loaded,
    config: { ...config, clusters: { default: cluster }, profiles: change.profiles ?? config.profiles },
    templates: Object.fromEntries(
      Object.entries(templates).map(([name, text]) => [name, text.replaceAll('node:24', change.image ?? 'node:24')]),
    ),
  };
  later = await startWorker(changed, { queues: ['launch', 'teardown', 'sweep'] });
}
const imageOf = async (name: string) => (await world.cluster.read('pods', name))?.spec?.containers[0]?.image;

describe.each([
  ['changed', () => ({ image: 'debian:12' })],
  ['gone', () => ({ profiles: { scratch: world.loaded.config.profiles.scratch as ProfileConfig } })],
])('an instance whose profile is %s since', (_what, change) => {
  it('is found as it was left, over the connection of today', async () => {
    const record = await steps.launch('kept');
    await takeOver(change());
    const old = join(dir, `kubeconfig-${count - 1}`);
    await rename(old, `${old}-away`);
    const effects = recordEffects();
    const after = await steps.reconnected('kept').finally(() => rename(`${old}-away`, old));
    expect(effects.stop().filter((name) => /^kube\.(exec|create|delete)/.test(name))).toEqual([]);
    expect(after).toMatchObject({ state: 'ready', pod: { uid: record.pod?.uid }, snapshot: record.snapshot });
  });

  it('is built again by the recipe that it was accepted with', async () => {
    const record = await steps.launch('rebuilt', { env: { PLAIN: 'plain' } });
    await takeOver(change());
    await steps.deletePod(record);
    await steps.lost('rebuilt');
    await world.operator.producer.reconnect('rebuilt');
    const after = await world.ready('rebuilt');
    expect(after).toMatchObject({ rebuilds: 1, snapshot: record.snapshot, workspace: { claimUid: record.workspace?.claimUid } });
    expect(after.pod?.uid).not.toBe(record.pod?.uid);
    expect(await imageOf(after.pod?.name ?? '')).toBe('node:24');
    expect((await world.exec('rebuilt', ['/bin/sh', '-c', 'printf %s "$PLAIN"'])).stdout).toBe('plain');
  });
});

describe('an instance whose connection names another namespace since', () => {
  it('is neither looked for there nor called lost nor removed: it says where it is', async () => {
    const record = await steps.launch('moved');
    const api = await connectHttp(embedded.kubeconfig);
    const namespace = `moved-${count}`;
    await api.call('POST', '/api/v1/namespaces', { metadata: { name: namespace } });
    await takeOver({ cluster: { namespace } });
    await world.operator.producer.reconnect('moved');
    const after = await world.until('moved', (current) => current?.failure?.attemptsLeft === 0);
    expect(after).toMatchObject({ state: 'ready', pod: { uid: record.pod?.uid }, failure: { code: 'unrecoverable' } });
    expect(after?.failure?.message).toContain(namespace);
    const { jobId } = await world.operator.producer.teardown({ version: 1, instanceId: 'moved' });
    const queue = (await world.operator.producer.queues()).teardown;
    await expect.poll(async () => (await queue.getJob(jobId))?.getState(), { timeout: 20_000 }).toBe('failed');
    expect((await queue.getJob(jobId))?.failedReason).toContain('Nothing was deleted');
    expect((await world.cluster.read('pods', record.pod?.name ?? ''))?.metadata?.deletionTimestamp).toBeUndefined();
  });
});
