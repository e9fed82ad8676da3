import { Redis } from 'ioredis';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { inventoryTag } from '../../src/inventory/keys.ts';
import type { CreateRecord, InstanceRecord } from '../../src/inventory/types.ts';
import { stuck } from '../../src/jobs/sweeps/stuck.ts';
import type { LocalCluster } from '../../src/local-cluster/types.ts';
import { withPlainQueue } from '../support/chaos/plain-queue.ts';
import { lightProfiles, startLightCluster } from '../support/light-cluster.ts';
import { passOn } from '../support/sweep-context.ts';
import { sweepsByHand } from '../support/sweeps-by-hand.ts';
import { createWorld, type World } from '../support/world.ts';

let light: LocalCluster;
let world: World;
let raw: Redis;
beforeAll(async () => {
  light = await startLightCluster();
  const config = { installation: 'place', profiles: lightProfiles, sweeps: sweepsByHand };
  world = await createWorld({ kubeconfig: light.kubeconfig, namespace: 'default', image: 'node:24', config });
  raw = new Redis(world.redis.url);
  await world.worker();
});
afterAll(async () => {
  raw?.disconnect();
  await world?.stop();
  await light?.close();
});

const launch = async (id: string) => {
  await world.operator.producer.launch({ version: 1, instanceId: id, profile: 'node' });
  return world.ready(id);
};

describe('I16 a create that was never settled, in a record that is broken', () => {
  let count = 0;
  let id: string;
  let bystander: InstanceRecord;
  let open: CreateRecord;
  const set = async (fields: object) => {
    const texts = Object.entries(fields).map(([name, value]) => [
      name,
      typeof value === 'string' ? value : JSON.stringify(value),
    ]);
    const { hashOf } = world.operator.inventory;
    await raw.hset(`${inventoryTag('windlass', 'place')}:record:${hashOf(id)}`, Object.fromEntries(texts));
  };
  beforeEach(async () => {
    id = `suspended ${++count}`;
    bystander = await launch(`bystander ${count}`);
    await launch(id);
    await world.operator.producer.teardown({ version: 1, instanceId: id, keepWorkspace: true });
    await world.until(id, (record) => record?.state === 'suspended');
    open = { ...(bystander.creates.pods as CreateRecord), open: true, sentAt: 1 };
  });
  const bystanderLives = async () => {
    const { name = '', uid = '' } = bystander.pod ?? {};
    const meta = (await world.cluster.read('pods', name))?.metadata;
    expect(meta?.uid).toBe(uid);
    expect(meta?.deletionTimestamp).toBeUndefined();
  };
  const sweepTwice = async () => {
    await passOn(world, stuck);
    return (await passOn(world, stuck)).entries.find((entry) => entry.name === id);
  };
  const refused = { rule: 'create_never_settled', action: 'failed', evidence: { code: 'invariant_broken' } };
  const creates = async () => (await world.operator.inventory.read(id))?.creates.pods;

  it('and names another one’s Pod: the sweep deletes nothing and leaves the intent open', async () => {
    await set({ creates: { pods: open } });
    expect(await sweepTwice()).toMatchObject(refused);
    await bystanderLives();
    expect(await creates()).toMatchObject({ open: true });
  });

  it('and is of another namespace: the sweep does not take it for settled because nothing is here', async () => {
    const name = `windlass-${world.operator.inventory.hashOf(id)}`;
    await set({ namespace: 'elsewhere', creates: { pods: { ...open, name } } });
    expect(await sweepTwice()).toMatchObject(refused);
    expect(await creates()).toMatchObject({ open: true });
  });

  it.each([
    ['names another one’s Pod', {}, (record: CreateRecord) => record.name],
    ['is of another namespace', { namespace: 'elsewhere', workspace: null }, () => undefined],
  ])('and %s: a teardown ends as broken, and the record stays', async (_what, fields, nameOf) => {
    const name = nameOf(open) ?? `windlass-${world.operator.inventory.hashOf(id)}`;
    await set({ ...fields, creates: { pods: { ...open, name } } });
    const { jobId } = await world.operator.producer.teardown({ version: 1, instanceId: id });
    await withPlainQueue(world, 'teardown', async (queue) => {
      await expect.poll(() => queue.getJobState(jobId), { timeout: 20_000 }).toBe('failed');
      expect((await queue.getJob(jobId))?.failedReason).toContain('invariant_broken');
    });
    await bystanderLives();
    expect(await creates()).toMatchObject({ open: true });
  });
});
