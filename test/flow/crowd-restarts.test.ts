import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Job } from 'bullmq';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import type { InstanceRecord } from '../../src/inventory/types.ts';
import { builtSweeps } from '../../src/jobs/catalog.ts';
import type { LocalCluster } from '../../src/local-cluster/types.ts';
import { podName } from '../../src/names.ts';
import { withPlainQueue } from '../support/chaos/plain-queue.ts';
import { lightProfiles, startLightCluster } from '../support/light-cluster.ts';
import { startRedis, type TestRedis } from '../support/redis.ts';
import { sweepsByHand } from '../support/sweeps-by-hand.ts';
import { createWorld, type World } from '../support/world.ts';

let dir: string;
let light: LocalCluster;
let redis: TestRedis;
let world: World;
const rules = (...list: object[]) => writeFile(join(dir, 'faults.yaml'), JSON.stringify({ rules: list }));
const start = (port?: number) =>
  startRedis({ ...(port === undefined ? {} : { port }), args: ['--dir', dir, '--appendonly', 'yes'] });

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'windlass-crowd-'));
  await rules();
  light = await startLightCluster({ faults: join(dir, 'faults.yaml') });
});
beforeEach(async () => {
  redis = await start();
  const installation = `crowd-${redis.port}`;
  const limits = { perOwner: 200, maxInstances: 200 };
  const config = { installation, profiles: lightProfiles, sweeps: sweepsByHand, limits };
  world = await createWorld({ kubeconfig: light.kubeconfig, namespace: 'default', image: 'node:24', config, redis });
  return async () => {
    await world.stop();
    await redis.stop();
    await rm(join(dir, 'appendonlydir'), { recursive: true, force: true });
  };
});
afterAll(async () => {
  await light?.close();
  await rm(dir, { recursive: true, force: true });
});

const names = (what: string, count: number) => Array.from({ length: count }, (_, at) => `${what} ${at}`);
const launch = (ids: readonly string[]) =>
  Promise.all(ids.map((instanceId) => world.operator.producer.launch({ version: 1, instanceId, profile: 'scratch' })));
const allReady = (ids: readonly string[]) => Promise.all(ids.map((id) => world.ready(id)));
/** All that would change if anything was done to it again. */
const state = (record: InstanceRecord) => [record.instanceId, record.fence, record.run, record.pod?.uid, record.restartCount];
const podsNow = async () => {
  const uids: string[] = [];
  const selector = `windlass.dev/installation=${world.loaded.config.installation}`;
  for await (const page of world.cluster.listMetadata('pods', selector)) uids.push(...page.items.map(({ uid }) => uid ?? ''));
  return uids.sort();
};
const uidsOf = (records: readonly InstanceRecord[]) => records.map(({ pod }) => pod?.uid ?? '').sort();

describe('a restart', () => {
  it('C93 of the only worker under 100 running instances: all are ready as they were, none is deleted or made anew', async () => {
    const ids = names('running', 100);
    const first = await world.workerProcess();
    await launch(ids);
    const before = await allReady(ids);
    const ended = once(first, 'exit');
    first.kill('SIGKILL');
    await ended;
    await world.worker();
    for (const kind of [...builtSweeps, ...builtSweeps]) {
      const { jobId } = await world.operator.producer.sweep({ version: 1, kinds: [kind] });
      const { reports } = await world.operator.producer.sweepReports(jobId, 30_000);
      expect(reports.map(({ stopped, deleted, acted }) => [stopped, deleted, acted])).toEqual([[undefined, 0, 0]]);
    }
    const after = await allReady(ids);
    expect(after.map(state)).toEqual(before.map(state));
    expect(await podsNow()).toEqual(uidsOf(before));
  });

  it('C11 of Redis and the worker with 50 launches completed and 5 active: exactly the 5 go on, and no Pod is made for the 50', async () => {
    const [done, active] = [names('done', 50), names('active', 5)];
    const first = await world.workerProcess();
    await launch(done);
    const before = await allReady(done);
    const { hashOf } = world.operator.inventory;
    const slow = active.map((id) => ({
      verb: 'create',
      resource: 'pods',
      name: podName(hashOf(id)),
      fault: { delayMs: 60_000 },
    }));
    await rules(...slow);
    await launch(active);
    const jobs = <T>(use: (queue: { getJobs(types: ('active' | 'completed')[]): Promise<Job[]> }) => Promise<T>) =>
      withPlainQueue(world, 'launch', use);
    const sending = async () => {
      const records = await Promise.all(active.map((id) => world.operator.inventory.read(id)));
      return records.filter((record) => record?.creates.pods?.open === true).length;
    };
    await expect.poll(sending, { timeout: 20_000 }).toBe(5);
    const ofFirst = await jobs(async (queue) => {
      expect(await queue.getJobs(['active'])).toHaveLength(5);
      return new Map((await queue.getJobs(['completed'])).map((job) => [job.id, job.processedOn]));
    });
    expect(ofFirst.size).toBe(50);
    const ended = once(first, 'exit');
    first.kill('SIGKILL');
    await ended;
    await redis.stop();
    await rules();
    redis = await start(redis.port);
    await world.worker();

    const resumed = await allReady(active);
    const after = await allReady(done);
    expect(after.map(state)).toEqual(before.map(state));
    expect(await podsNow()).toEqual(uidsOf([...before, ...resumed]));
    const again = await jobs(async (queue) => {
      await expect.poll(async () => (await queue.getJobs(['completed'])).length).toBe(55);
      const completed = await queue.getJobs(['completed']);
      return completed.filter((job) => ofFirst.get(job.id) !== job.processedOn).map((job) => job.data.instanceId);
    });
    expect(again.sort()).toEqual(active);
  });
});
