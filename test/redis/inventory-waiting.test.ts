import { describe, expect, test } from 'vitest';
import type { Inventory, JobRef } from '../../src/inventory/port.ts';
import { begin, intend, ready, remove, tag, tearDown, until, useWorld } from './inventory-support.ts';

const world = useWorld();
const job = (jobId: string): JobRef => ({ queue: 'launch', jobId });
const caps = { owner: 100, cluster: 100, global: 100, launching: 100 };
const liveSets = [`${tag}:live`, `${tag}:live-owner:ann`, `${tag}:live-cluster:default`, `${tag}:launching`, `${tag}:queued:ann`];

describe('a cap', () => {
  test.each([
    ['owner', 'owner_limit'],
    ['cluster', 'cluster_saturated'],
    ['global', 'cluster_saturated'],
    ['launching', 'cluster_saturated'],
  ] as const)('of %s makes a launch beyond it wait, and one that is in already go on', async (name, reason) => {
    const { inventory } = world;
    const limits = { ...caps, [name]: 1 };
    const first = await intend(inventory, 'a');
    const { lease } = await begin(inventory, 'a', first, { caps: limits });
    const second = await intend(inventory, 'b');
    const blocked = await inventory.begin('b', { verb: 'launch', generation: second.generation, run: 1, caps: limits });
    expect(blocked).toEqual({ kind: 'wait', reason });
    await lease.release();
    expect((await begin(inventory, 'a', first, { caps: limits })).kind).toBe('ok');
    expect((await inventory.read('b'))?.state).toBe('requested');
  });

  test('of launching holds no rollback up: what that frees is what the others may wait for', async () => {
    const { inventory } = world;
    const limits = { ...caps, launching: 1 };
    const failing = await intend(inventory, 'a');
    const { lease } = await begin(inventory, 'a', failing, { caps: limits });
    // Its Pod is still going, so it waits, and another one takes its place.
    await inventory.write(lease, { state: 'rolling_back', release: true });
    await begin(inventory, 'b', await intend(inventory, 'b'), { caps: limits });
    expect((await begin(inventory, 'a', failing, { caps: limits })).record.state).toBe('rolling_back');
  });

  test('of an owner does not count other owners', async () => {
    const { inventory } = world;
    const limits = { ...caps, owner: 1 };
    await begin(inventory, 'a', await intend(inventory, 'a'), { caps: limits });
    const other = await intend(inventory, 'b', { owner: 'bob' });
    expect((await begin(inventory, 'b', other, { caps: limits })).kind).toBe('ok');
  });

  test('counts from live sets that return to zero, whatever the launches went through (C13)', async () => {
    const { inventory, raw } = world;
    const count = 40;
    await Promise.all(Array.from({ length: count }, (_, at) => wander(inventory, `i${at}`, at)));
    expect(await raw.scard(`${tag}:live`)).toBeGreaterThan(0);
    for (let at = 0; at < count; at++) {
      await raw.del(`${tag}:lease:${inventory.hashOf(`i${at}`)}`);
      expect(await tearDown(inventory, `i${at}`)).toBe('gone');
    }
    for (const set of liveSets) expect(`${set}: ${await raw.scard(set)}`).toBe(`${set}: 0`);
    expect(await raw.zcard(`${tag}:all`)).toBe(0);
    expect(Object.values(await inventory.counts()).every((n) => n === 0)).toBe(true);
  });
});

/** Leaves a launch somewhere on its way, as a killed worker would. */
async function wander(inventory: Inventory, id: string, at: number): Promise<void> {
  const accepted = await intend(inventory, id);
  if (at % 5 === 0) return;
  const { lease } = await begin(inventory, id, accepted, { caps });
  if (at % 5 === 1) return;
  if (at % 5 === 2) await inventory.write(lease, { state: 'ready', set: { expiresAt: 1 } });
  else await inventory.write(lease, { state: 'rolling_back' });
  if (at % 5 === 4) await inventory.write(lease, { state: 'requested' });
}

describe('a waiter', () => {
  test('is given to one of those who claim it, and leaves its other keys', async () => {
    const { inventory } = world;
    const other = await world.open({ holder: 'worker-2' });
    await inventory.registerWait(job('j1'), ['global', 'owner:ann']);
    const claims = await Promise.all([inventory, other, inventory, other].map((claimer) => claimer.claimWaiters('global', 1)));
    expect(claims.flat()).toEqual([job('j1')]);
    expect(await inventory.claimWaiters('owner:ann', 5)).toEqual([]);
  });

  test('comes in the order of acceptance, as many as asked for', async () => {
    const { inventory } = world;
    const ids = ['launch-aa-30-1', 'launch-bb-10-1', 'launch-cc-20-1'];
    for (const id of ids) await inventory.registerWait(job(id), ['global']);
    expect(await inventory.claimWaiters('global', 2)).toEqual([job('launch-bb-10-1'), job('launch-cc-20-1')]);
    expect(await inventory.claimWaiters('global', 2)).toEqual([job('launch-aa-30-1')]);
  });

  test('that registers again has only the new keys', async () => {
    const { inventory } = world;
    await inventory.registerWait(job('j1'), ['global']);
    await inventory.registerWait(job('j1'), ['owner:ann']);
    expect(await inventory.claimWaiters('global', 1)).toEqual([]);
    expect(await inventory.claimWaiters('owner:ann', 1)).toEqual([job('j1')]);
  });

  test('whose job came back by itself does not eat the wake-up of the next', async () => {
    const { inventory } = world;
    const accepted = await intend(inventory, 'a');
    await inventory.registerWait(accepted.job, ['global']);
    await inventory.registerWait(job('launch-ff-99999999999999-1'), ['global']);
    await begin(inventory, 'a', accepted);
    expect(await inventory.claimWaiters('global', 1)).toEqual([job('launch-ff-99999999999999-1')]);
  });

  test('that was woken for a free place and may not take it passes the wake-up on (owner at its limit)', async () => {
    const { inventory } = world;
    const limits = { ...caps, owner: 1, cluster: 2 };
    const heard: string[] = [];
    await inventory.onWake((key) => heard.push(key));
    await begin(inventory, 'ann 1', await intend(inventory, 'ann 1'), { caps: limits });
    await ready(inventory, 'bob 1', { owner: 'bob' });
    // Ann's second was told that the cluster is full when she had no other; eve stands behind it.
    const ann = await intend(inventory, 'ann 2');
    const eve = await intend(inventory, 'eve 1', { owner: 'eve' });
    for (const { job: waiting } of [ann, eve]) await inventory.registerWait(waiting, ['cluster:default', 'global']);
    expect(await tearDown(inventory, 'bob 1')).toBe('gone');
    const [woken] = await inventory.claimWaiters('cluster:default', 1);
    expect(woken?.jobId).toBe(ann.job.jobId);
    await until(() => heard.includes('cluster:default'));
    heard.length = 0;

    const answer = await inventory.begin('ann 2', { verb: 'launch', generation: ann.generation, run: 1, caps: limits });
    expect(answer).toEqual({ kind: 'wait', reason: 'owner_limit' });
    await inventory.registerWait(ann.job, ['owner:ann']);
    await until(() => heard.includes('cluster:default'));
    const [next] = await inventory.claimWaiters('cluster:default', 1);
    expect(next?.jobId).toBe(eve.job.jobId);
    expect((await begin(inventory, 'eve 1', eve, { caps: limits })).kind).toBe('ok');
  });

  test('that took its place, or waits for the same again, passes nothing on', async () => {
    const { inventory } = world;
    const slot = async () => (await inventory.wakeNumbers(['global'])).global;
    const accepted = await intend(inventory, 'a');
    await inventory.registerWait(accepted.job, ['global']);
    await inventory.claimWaiters('global', 1);
    const before = await slot();
    await inventory.registerWait(accepted.job, ['global']);
    await inventory.claimWaiters('global', 1);
    await begin(inventory, 'a', accepted);
    await inventory.registerWait(accepted.job, [`inst:${inventory.hashOf('a')}`]);
    expect(await slot()).toBe(before);
  });

  test('of a launch that is being removed is woken under the instance, whatever it waited for', async () => {
    const { inventory } = world;
    const accepted = await intend(inventory, 'a');
    await inventory.registerWait(accepted.job, ['owner:ann']);
    const seen = (await inventory.wakeNumbers([`inst:${inventory.hashOf('a')}`]))[`inst:${inventory.hashOf('a')}`];
    await remove(inventory, 'a');
    expect((await inventory.wakeNumbers([`inst:${inventory.hashOf('a')}`]))[`inst:${inventory.hashOf('a')}`]).not.toBe(seen);
    expect(await inventory.claimWaiters('owner:ann', 1)).toEqual([]);
    const claimed = await inventory.claimWaiters(`inst:${inventory.hashOf('a')}`, 1);
    expect(claimed).toEqual([{ queue: 'launch', jobId: accepted.job.jobId }]);
  });

  test('registered with a write sees a wake-up that came between the write and the sleep (lost wake-up)', async () => {
    const { inventory } = world;
    const accepted = await intend(inventory, 'a');
    const { lease } = await begin(inventory, 'a', accepted);
    const keys = [`inst:${inventory.hashOf('a')}`, 'global'];
    const ticket = await inventory.write(lease, { waitOn: { job: accepted.job, keys }, release: true });
    expect(await inventory.wakeNumbers(keys)).toEqual(ticket.numbers);
    await inventory.wake([keys[0] as string]);
    const now = await inventory.wakeNumbers(keys);
    expect(now[keys[0] as string]).not.toBe(ticket.numbers[keys[0] as string]);
    expect(now.global).toBe(ticket.numbers.global);
  });
});

describe('a wake-up', () => {
  test('reaches every worker as a message', async () => {
    const { inventory } = world;
    const other = await world.open({ holder: 'worker-2' });
    const heard: string[] = [];
    const stop = await other.onWake((key) => heard.push(key));
    await inventory.wake(['pod:x']);
    await until(() => heard.includes('pod:x'));
    stop();
    await inventory.wake(['pod:y']);
    await inventory.wakeNumbers(['pod:y']);
    expect(heard).not.toContain('pod:y');
  });

  test.each(['failed', 'requested'] as const)('comes for owner, cluster and all when a rollback ends %s', async (end) => {
    const { inventory } = world;
    const { lease } = await begin(inventory, 'a', await intend(inventory, 'a'));
    await inventory.write(lease, { state: 'rolling_back' });
    const keys = ['owner:ann', 'cluster:default', 'global'];
    const before = await inventory.wakeNumbers(keys);
    await inventory.write(lease, { state: end });
    const after = await inventory.wakeNumbers(keys);
    for (const key of keys) expect(`${key} ${after[key]}`).not.toBe(`${key} ${before[key]}`);
  });

  test('comes for the launching cap when a launch is ready, but not for the owner, whose slot stays taken', async () => {
    const { inventory } = world;
    const { lease } = await begin(inventory, 'a', await intend(inventory, 'a'));
    const before = await inventory.wakeNumbers(['owner:ann', 'global']);
    await inventory.write(lease, { state: 'ready' });
    const after = await inventory.wakeNumbers(['owner:ann', 'global']);
    expect(after.global).not.toBe(before.global);
    expect(after['owner:ann']).toBe(before['owner:ann']);
  });

  test('comes for the instance, its lease and every limit when it is gone', async () => {
    const { inventory } = world;
    await ready(inventory, 'a');
    const removal = await remove(inventory, 'a');
    const { lease } = await begin(inventory, 'a', removal, { verb: 'teardown' });
    const hash = inventory.hashOf('a');
    const keys = [`inst:${hash}`, `lease:${hash}`, 'owner:ann', 'cluster:default', 'global'];
    const before = await inventory.wakeNumbers(keys);
    await inventory.finishRemoval(lease, { generation: removal.generation, suspended: false });
    const after = await inventory.wakeNumbers(keys);
    for (const key of keys) expect(`${key} ${after[key]}`).not.toBe(`${key} ${before[key]}`);
  });

  test('comes for those who wait for a lease when it is released', async () => {
    const { inventory } = world;
    const { lease } = await begin(inventory, 'a', await intend(inventory, 'a'));
    const key = `lease:${lease.hash}`;
    const before = await inventory.wakeNumbers([key]);
    await lease.release();
    expect((await inventory.wakeNumbers([key]))[key]).not.toBe(before[key]);
  });
});

test('pending jobs are stale only after their time, and repeated intents renew one entry', async () => {
  const { inventory } = world;
  const accepted = await intend(inventory, 'a');
  await intend(inventory, 'a');
  expect(await inventory.stalePending(60_000)).toEqual([]);
  await until(async () => (await inventory.stalePending(50)).length === 1);
  expect((await inventory.stalePending(0)).map((entry) => entry.jobId)).toEqual([accepted.job.jobId]);
});
