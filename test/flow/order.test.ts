import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { podName } from '../../src/names.ts';
import { withPlainQueue } from '../support/chaos/plain-queue.ts';
import { type FaultyCluster, startFaultyCluster } from '../support/fault-plan.ts';
import { randomInt } from '../support/random.ts';
import { createWorld, type World } from '../support/world.ts';

let embedded: FaultyCluster;
let world: World;

beforeAll(async () => {
  embedded = await startFaultyCluster();
  // Requests that take longer than this are answers that never came.
  const cluster = { authMode: 'kubeconfig', kubeconfigPath: embedded.kubeconfig, namespace: 'default', requestTimeoutSeconds: 3 };
  const config = { clusters: { default: cluster } };
  world = await createWorld({ kubeconfig: embedded.kubeconfig, namespace: 'default', image: 'node:24', config });
  await Promise.all([world.worker(), world.worker()]);
});
afterAll(async () => {
  await world?.stop();
  await embedded?.close();
});

const request = (id: string) => ({ version: 1, instanceId: id, profile: 'node' });
const tearDown = (id: string) => world.operator.producer.teardown({ version: 1, instanceId: id });

async function assertReadyOnce(id: string, objects = 2) {
  const record = await world.ready(id);
  expect((await world.cluster.read('pods', podName(record.hash)))?.metadata?.uid).toBe(record.pod?.uid);
  expect((await world.leftovers()).length).toBe(objects);
  return record;
}

async function assertGone(id: string) {
  await tearDown(id);
  await world.gone(id);
  expect(await world.leftovers()).toEqual([]);
}

describe('the last request wins, whatever is under way', () => {
  it('C09 the same id again after a teardown is a launch of its own, although the queue still knows the first; while it lives it is not', async () => {
    const first = await world.operator.producer.launch(request('again'));
    const before = await assertReadyOnce('again');
    expect(await world.operator.producer.launch(request('again'))).toMatchObject({ jobId: first.jobId, deduplicated: true });
    await assertGone('again');
    await withPlainQueue(world, 'launch', async (queue) => {
      expect(await queue.getJobState(first.jobId)).toBe('completed');
    });
    const second = await world.operator.producer.launch(request('again'));
    expect(second).toMatchObject({ deduplicated: false, jobId: expect.not.stringContaining(first.jobId) });
    expect((await assertReadyOnce('again')).pod?.uid).not.toBe(before.pod?.uid);
    await assertGone('again');
  });

  it.each([1, 2, 3])('C14 launches and teardowns in a burst end as the last one says (seed %i)', async (seed) => {
    const id = `burst ${seed}`;
    const random = randomInt(seed);
    await world.operator.producer.launch(request(id));
    for (let step = 0; step < 6; step++) {
      const seen = (await world.operator.inventory.read(id))?.updatedAt;
      // Between two requests the workers get as far as they get with this many changes of the record.
      for (let changes = random(5); changes > 0; changes--)
        await world.until(id, (record) => record?.updatedAt !== seen || record === undefined || record.state === 'ready');
      if (step % 2 === 0 && (await world.operator.inventory.read(id)) !== undefined) await tearDown(id);
      else await world.operator.producer.launch(request(id));
    }
    await assertReadyOnce(id);
    await assertGone(id);
  });

  it('a launch that comes while the claim of the old generation is being deleted waits, and gets a new one', async () => {
    const id = 'half deleted';
    await world.operator.producer.launch(request(id));
    const old = await world.ready(id);
    await world.exec(id, ['/bin/sh', '-c', 'echo old > data']);
    await embedded.withFaults([{ verb: 'delete', resource: 'persistentvolumeclaims', fault: { delayMs: 1500 } }], async () => {
      await tearDown(id);
      await world.until(id, (record) => record?.state === 'removing' && record.pod === null);
      await world.operator.producer.launch(request(id));
      expect((await world.operator.inventory.read(id))?.state).toBe('removing');
      await world.until(id, (record) => record?.state === 'ready');
    });
    const fresh = await assertReadyOnce(id);
    expect(fresh.workspace?.claimUid).not.toBe(old.workspace?.claimUid);
    expect((await world.exec(id, ['cat', 'data'])).exitCode).not.toBe(0);
    await assertGone(id);
  });
});

describe('a teardown during the create of the Pod', () => {
  it('takes at once what that made, and does not wait out the time in which it might have landed', async () => {
    const id = 'under way';
    await embedded.withFaults([{ verb: 'create', resource: 'pods', nth: 1, fault: { delayMs: 1500 } }], async () => {
      await world.operator.producer.launch(request(id));
      await world.until(id, (record) => record?.creates.pods?.open === true);
      await tearDown(id);
      await world.gone(id, 20);
    });
    expect(await world.leftovers()).toEqual([]);
  });
});

describe('a create whose answer is lost', () => {
  it('but was done is found by its nonce and kept: one Pod, no second create', async () => {
    const id = 'dropped';
    await embedded.withFaults([{ verb: 'create', resource: 'pods', nth: 1, fault: 'commit_then_drop' }], async () => {
      await world.operator.producer.launch(request(id));
      const record = await assertReadyOnce(id);
      expect(record.attemptsLeft).toBe(3);
    });
    await assertGone(id);
  });

  it('and lands after the launch was rolled back is removed, and the next attempt makes its own', async () => {
    const id = 'late commit';
    await embedded.withFaults([{ verb: 'create', resource: 'pods', nth: 1, fault: { delayThenCommitMs: 8000 } }], async () => {
      await world.operator.producer.launch(request(id));
      const rolledBack = await world.until(id, (record) => record?.state === 'rolling_back');
      expect(rolledBack?.failure).toMatchObject({ code: 'cluster_unreachable', attemptsLeft: 2 });
      await assertReadyOnce(id);
    });
    await assertGone(id);
  });
});

describe('a job that another service put into the queue, without generation', () => {
  it('is launched once, however often it is delivered, and torn down by another such job', async () => {
    const id = 'raw';
    await withPlainQueue(world, 'launch', async (queue) => {
      await Promise.all([1, 2, 3].map(() => queue.add('anything', request(id), { jobId: 'from-elsewhere' })));
    });
    const record = await assertReadyOnce(id);
    await withPlainQueue(world, 'launch', (queue) => queue.add('anything', request(id), { jobId: 'again' }));
    await withPlainQueue(world, 'launch', async (queue) => {
      await world.until(id, (current) => current?.generation === record.generation);
      await expect.poll(async () => (await queue.getJob('again'))?.getState(), { timeout: 30_000 }).toBe('completed');
    });
    expect((await world.ready(id)).pod?.uid).toBe(record.pod?.uid);
    await withPlainQueue(world, 'teardown', (queue) => queue.add('anything', { version: 1, instanceId: id }));
    await world.gone(id);
    expect(await world.leftovers()).toEqual([]);
  });

  it('C89 of a newer version is parked, not failed, and taken once its version is known; fields of a newer minor version are ignored', async () => {
    await withPlainQueue(world, 'launch', async (queue) => {
      await queue.add('newer', { ...request('newer'), version: 2 }, { jobId: 'newer' });
      await queue.add('minor', { ...request('minor'), surprise: true }, { jobId: 'minor' });
      await assertReadyOnce('minor');
      await expect.poll(async () => (await queue.getJob('newer'))?.getState(), { timeout: 20_000 }).toBe('delayed');
      const failed = (await queue.getFailed()).map((job) => job.id);
      expect(failed.filter((id) => id === 'newer' || id === 'minor')).toEqual([]);
      const parked = await queue.getJob('newer');
      expect(parked).toMatchObject({ attemptsMade: 0, data: { ...request('newer'), version: 2 } });
      expect(await world.operator.inventory.read('newer')).toBeUndefined();
      // From here on its version is known: it is taken as it stands in the queue, and nobody adds it again.
      await parked?.updateData(request('newer'));
      await assertReadyOnce('newer', 4);
      expect((await queue.getJob('newer'))?.attemptsMade).toBeLessThanOrEqual(1);
    });
    await tearDown('newer');
    await world.gone('newer');
    await assertGone('minor');
  });
});

describe('a job that comes when the tombstone of its instance is gone', () => {
  /** As when retention.tombstoneSeconds are over. */
  async function forgetTombstone(id: string) {
    const { inventory } = world.operator;
    expect(await inventory.tombstone(id)).toBeDefined();
    const redis = new Redis(world.redis.url);
    expect(await redis.pexpire(`{windlass:test:inventory}:tombstone:${inventory.hashOf(id)}`, 1)).toBe(1);
    redis.disconnect();
    await expect.poll(() => inventory.tombstone(id)).toBeUndefined();
  }
  async function deliver(name: 'launch' | 'teardown', data: object, jobId: string) {
    return withPlainQueue(world, name, async (queue) => {
      await queue.add(name, data, { jobId });
      await expect.poll(() => queue.getJobState(jobId), { timeout: 30_000 }).toMatch(/completed|failed/);
      return [await queue.getJobState(jobId), (await queue.getJob(jobId))?.returnvalue];
    });
  }

  it('I10 I11 an old launch makes nothing, an old teardown takes nothing of a newer launch, and what names no generation is a launch of its own', async () => {
    const id = 'forgotten';
    const old = await world.operator.producer.launch(request(id));
    await world.ready(id);
    const removal = await world.operator.producer.teardown({ version: 1, instanceId: id });
    await world.gone(id);
    await forgetTombstone(id);
    const lateLaunch = { version: 1, instanceId: id, generation: old.generation, run: 1 };
    expect(await deliver('launch', lateLaunch, 'late launch')).toEqual(['completed', { state: 'superseded' }]);
    expect([await world.operator.inventory.read(id), await world.leftovers()]).toEqual([undefined, []]);

    await withPlainQueue(world, 'launch', (queue) => queue.add('anything', request(id), { jobId: 'raw, without generation' }));
    const fresh = await assertReadyOnce(id);
    expect(fresh.generation).toBeGreaterThan(removal.generation);
    const lateRemoval = { version: 1, instanceId: id, generation: removal.generation, run: 1 };
    expect((await deliver('teardown', lateRemoval, 'late teardown'))[0]).toBe('completed');
    expect(await deliver('launch', lateLaunch, 'later launch')).toEqual(['completed', { state: 'superseded' }]);
    expect(await assertReadyOnce(id)).toMatchObject({ generation: fresh.generation, fence: fresh.fence, pod: fresh.pod });
    await assertGone(id);
  });
});
