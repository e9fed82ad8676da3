import { Redis } from 'ioredis';
import { expect } from 'vitest';
import { claimName, podName } from '../../src/names.ts';
import type { World } from './world.ts';

/** FLUSHALL on the world's Redis: records, queues, schedulers, epochs and secrets are gone at once. */
export async function flushAll(world: World): Promise<void> {
  const raw = new Redis(world.redis.url);
  await raw.flushall();
  raw.disconnect();
}

export async function sweepReport(world: World, kind: string) {
  const { jobId } = await world.operator.producer.sweep({ version: 1, kinds: [kind] });
  return (await world.operator.producer.sweepReports(jobId, 60_000)).reports[0];
}

/**
 * Live instances, a suspended one and a half-done removal; Redis is flushed. Nothing is deleted, a launch of a name that
 * exists waits, others go on; after the recovery every Pod and claim is the same one and commands run in each.
 */
export async function recoverFlow(world: World, count: number): Promise<void> {
  const { producer, inventory } = world.operator;
  const ids = Array.from({ length: count }, (_, index) => `live / ${index} é`);
  const launch = (instanceId: string) =>
    producer.launch({ version: 1, instanceId, profile: 'node', owner: `owner of ${instanceId}`, env: { WHO: instanceId } });
  await Promise.all([...ids, 'kept', 'half'].map(launch));
  const before = await Promise.all(ids.map((id) => world.ready(id, 120)));
  const half = await world.ready('half');
  await world.ready('kept');
  await Promise.all(ids.map((id) => world.exec(id, ['/bin/sh', '-c', 'echo "of $WHO" > file'])));
  await producer.teardown({ version: 1, instanceId: 'kept', keepWorkspace: true });
  const kept = await world.until('kept', (record) => record?.state === 'suspended');

  await flushAll(world);
  // A removal was under way: its Pod is gone, its claim not yet.
  await world.cluster.remove('pods', podName(half.hash), { uid: half.pod?.uid ?? '', graceSeconds: 1 });
  await expect.poll(() => world.cluster.read('pods', podName(half.hash)), { timeout: 30_000 }).toBeUndefined();

  const objects = await world.leftovers();
  for (let pass = 0; pass < 2; pass++)
    expect(await sweepReport(world, 'orphans')).toMatchObject({ deleted: 0, stopped: { code: 'inventory_lost' } });
  expect(await world.leftovers()).toEqual(objects);
  await launch(ids[0] as string);
  await launch('new');
  await world.ready('new');
  expect((await inventory.read(ids[0] as string))?.state).toBe('requested');

  const plan = await world.operator.recover({ dryRun: true });
  expect(plan).toMatchObject({ recovered: count + 2, failed: 0 });
  expect((await inventory.list({ limit: 500 })).items).toHaveLength(2);
  const report = await world.operator.recover({ dryRun: false });
  expect(report.items.filter((item) => item.outcome === 'failed')).toEqual([]);
  expect(report).toMatchObject({ recovered: count + 2 });

  for (const [index, id] of ids.entries()) {
    const record = await world.ready(id);
    expect(record).toMatchObject({
      recovered: true,
      // The first was asked for again while all was lost: its launch is known.
      missing: index === 0 ? [] : ['env', 'prepare', 'secretEnv'],
      owner: `owner of ${id}`,
      restartCount: 0,
    });
    expect(record.pod?.uid).toBe(before[index]?.pod?.uid);
    expect(record.workspace).toEqual(before[index]?.workspace);
    expect(record.expiresAt).toBeGreaterThan(Date.now());
    expect((await world.exec(id, ['cat', 'file'])).stdout).toBe(`of ${id}\n`);
  }
  expect(await inventory.read('kept')).toMatchObject({ state: 'suspended', workspace: kept?.workspace });
  await world.gone('half');
  expect(await world.cluster.read('persistentvolumeclaims', claimName(half.hash))).toBeUndefined();
  expect((await sweepReport(world, 'orphans'))?.stopped).toBeUndefined();
  expect(await world.operator.recover({ dryRun: false })).toMatchObject({ recovered: 0, failed: 0 });

  // What the launch knew comes back with the launch; the kept workspace can be worked on again.
  await launch(ids[1] as string);
  expect((await inventory.read(ids[1] as string))?.missing).toEqual([]);
  await launch('kept');
  expect((await world.ready('kept')).workspace?.claimUid).toBe(kept?.workspace?.claimUid);

  await Promise.all([...ids, 'kept', 'new'].map((instanceId) => producer.teardown({ version: 1, instanceId })));
  for (const id of [...ids, 'kept', 'new']) await world.gone(id, 120);
  expect(await world.leftovers()).toEqual([]);
}
