import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { InstanceRecord } from '../../src/inventory/types.ts';
import { startWorker } from '../../src/main.ts';
import { type FaultyCluster, startFaultyCluster } from '../support/fault-plan.ts';
import { recordEffects, removePods, resumeSteps } from '../support/resume-steps.ts';
import { createWorld, type World, type WorldOptions } from '../support/world.ts';

let embedded: FaultyCluster;
beforeAll(async () => {
  embedded = await startFaultyCluster();
});
afterAll(async () => embedded?.close());

let count = 0;
async function within(use: (world: World) => Promise<void>, more: Partial<WorldOptions> = {}): Promise<void> {
  const config = { installation: `teardown-${count++}` };
  const world = await createWorld({ kubeconfig: embedded.kubeconfig, namespace: 'default', image: 'node:24', config, ...more });
  try {
    await use(world);
    await removePods(world);
  } finally {
    await world.stop();
  }
}
const launched = (world: World, id: string, more: object = {}) => resumeSteps(world).launch(id, more);
const events = (world: World, id: string, type: string) => resumeSteps(world).events(id, type);
const teardown = (world: World, id: string, more: object = {}) =>
  world.operator.producer.teardown({ version: 1, instanceId: id, ...more });
const podOf = (world: World, record: InstanceRecord) => world.cluster.read('pods', record.pod?.name ?? '');
const claimOf = (world: World, record: InstanceRecord) =>
  world.cluster.read('persistentvolumeclaims', record.workspace?.claimName ?? '');

describe('a teardown', () => {
  it('runs the cleanup script first, tells its exit code, and goes on although it failed: then the Pod, then the claim', async () => {
    await within(async (world) => {
      await world.worker();
      await launched(world, 'order');
      const effects = recordEffects();
      await teardown(world, 'order', { cleanup: 'exit 3' });
      await world.gone('order');
      const seen = effects.stop().filter((name) => /^kube\.(exec|delete)/.test(name));
      expect(seen).toEqual(['kube.exec', 'kube.delete.pods', 'kube.delete.persistentvolumeclaims']);
      expect(await events(world, 'order', 'stage.progress')).toContainEqual(
        expect.objectContaining({ stage: 'cleanup', exitCode: 3 }),
      );
      expect(await world.leftovers()).toEqual([]);
    });
  });

  it('gives the cleanup script the workspace, whose work is there when it was kept', async () => {
    await within(async (world) => {
      await world.worker();
      await launched(world, 'words');
      await teardown(world, 'words', { cleanup: 'cd /workspace 2>/dev/null; echo saved > last', keepWorkspace: true });
      await world.until('words', (record) => record?.state === 'suspended');
      await launched(world, 'words');
      expect((await world.exec('words', ['cat', 'last'])).stdout).toBe('saved\n');
    });
  });

  it('waits for its Pod to be really gone, and does not touch the claim before', async () => {
    await within(
      async (world) => {
        await world.worker();
        const record = await launched(world, 'stuck');
        await teardown(world, 'stuck');
        const waits = async () => (await podOf(world, record))?.metadata?.deletionTimestamp !== undefined;
        await expect.poll(waits).toBe(true);
        // A round of waiting has been written down: the removal has seen that the Pod is still there.
        const removal = async () => (await (await world.operator.producer.queues()).teardown.getDelayed()).length;
        await expect.poll(removal, { timeout: 20_000 }).toBe(1);
        expect((await claimOf(world, record))?.metadata?.deletionTimestamp).toBeUndefined();
        expect((await world.operator.inventory.read('stuck'))?.state).toBe('removing');
        await world.cluster.remove('pods', record.pod?.name ?? '', { uid: record.pod?.uid ?? '', graceSeconds: 0 });
        await world.gone('stuck');
        expect(await world.leftovers()).toEqual([]);
      },
      { image: 'fault.local/stuck-terminating' },
    );
  });

  it.each([{ force: false }, { force: true }])(
    'of a record that names a claim which cannot be ours deletes nothing, not even the Pod (%j)',
    async (options) => {
      await within(async (world) => {
        await world.worker();
        const record = await launched(world, 'wrong');
        const lease = await world.operator.inventory.tryLease(record.hash);
        if (lease === undefined || record.workspace === null) throw new Error('nothing to write to');
        const workspace = { ...record.workspace, claimName: 'somebody-elses' };
        await world.operator.inventory.write(lease, { set: { workspace }, release: true });
        const { jobId } = await teardown(world, 'wrong', options);
        const queue = (await world.operator.producer.queues()).teardown;
        await expect.poll(async () => (await queue.getJob(jobId))?.getState(), { timeout: 20_000 }).toBe('failed');
        expect((await queue.getJob(jobId))?.failedReason).toContain('somebody-elses');
        expect((await podOf(world, record))?.metadata).toMatchObject({ uid: record.pod?.uid });
        expect((await podOf(world, record))?.metadata?.deletionTimestamp).toBeUndefined();
      });
    },
  );

  it('by force runs no script', async () => {
    await within(async (world) => {
      await world.worker();
      await launched(world, 'forced');
      const effects = recordEffects();
      await teardown(world, 'forced', { force: true, cleanup: 'exit 3' });
      await world.gone('forced');
      expect(effects.stop().filter((name) => name === 'kube.exec')).toEqual([]);
      expect(await world.leftovers()).toEqual([]);
    });
  });

  it('leaves alone what took the name of its Pod, and is done', async () => {
    await within(async (world) => {
      const worker = await world.worker();
      const record = await launched(world, 'replaced');
      await worker.close();
      await world.cluster.remove('pods', record.pod?.name ?? '', { uid: record.pod?.uid ?? '', graceSeconds: 0 });
      await expect.poll(() => podOf(world, record)).toBeUndefined();
      const containers = [{ name: 'sleeper', image: 'busybox:1', command: ['sleep', '600'] }];
      const foreign = await world.cluster.create('pods', { metadata: { name: record.pod?.name ?? '' }, spec: { containers } });
      await teardown(world, 'replaced');
      await world.worker();
      await world.gone('replaced');
      expect((await podOf(world, record))?.metadata).toMatchObject({ uid: foreign.metadata?.uid });
      expect(await world.leftovers()).toEqual([]);
      await world.cluster.remove('pods', record.pod?.name ?? '', { uid: foreign.metadata?.uid ?? '', graceSeconds: 0 });
    });
  });
});

describe('a rollback that cannot remove its Pod', () => {
  it('keeps the record with its UIDs and secrets; the removal that follows finds it by UID, whatever its labels say', async () => {
    await within(async (world) => {
      const launches = await startWorker(world.loaded, { queues: ['launch'] });
      const rules = [
        {
          verb: 'create',
          resource: 'pods',
          nth: 1,
          fault: { mutate: [{ op: 'remove', path: '/metadata/labels/windlass.dev~1owner' }] },
        },
        { verb: 'delete', resource: 'pods', fault: { error: { code: 500, reason: 'InternalError', message: 'no etcd' } } },
      ];
      const request = { version: 1, instanceId: 'kept', profile: 'node', secretEnv: { SECRET: 'x' } };
      const record = await embedded.withFaults(rules, async () => {
        await world.operator.producer.launch(request);
        return world.until('kept', (current) => current?.state === 'cleanup_pending');
      });
      expect(record?.failure).toMatchObject({ code: 'admission_mismatch', rollback: [{ code: 'cluster_unreachable' }] });
      expect(record?.pod?.uid).toBe((await podOf(world, record as InstanceRecord))?.metadata?.uid);
      expect(Object.keys(await world.operator.inventory.secrets(record?.hash ?? ''))).toContain('sealedEnv');
      expect(await events(world, 'kept', 'rolled_back')).toEqual([]);
      await launches.close();
      await world.worker();
      await world.gone('kept');
      expect(await podOf(world, record as InstanceRecord)).toBeUndefined();
      expect(await world.leftovers()).toEqual([]);
    });
  });
});
