import { describe, expect, test } from 'vitest';
import { begin, intend, launchOf, ready, refusal, remove, tag, tearDown, useWorld } from './inventory-support.ts';

const world = useWorld();

describe('the end of a removal', () => {
  test('leaves a tombstone, and nothing else but the events', async () => {
    const { inventory, raw } = world;
    const accepted = await ready(inventory, 'a', { sealedEnv: 'sealed' });
    await inventory.clearPending(accepted.job.jobId);
    const removal = await remove(inventory, 'a');
    await inventory.clearPending(removal.job.jobId);
    const { lease } = await begin(inventory, 'a', removal, { verb: 'teardown' });
    expect(await inventory.finishRemoval(lease, { generation: removal.generation, suspended: false })).toBe('gone');
    expect(await inventory.read('a')).toBeUndefined();
    expect(await inventory.tombstone('a')).toMatchObject({ instanceId: 'a', owner: 'ann', generation: removal.generation });
    const kept = (await raw.keys('*')).filter((key) => !/:(op|wake|wakes|raw)(:|$)/.test(key.slice(tag.length)));
    const hash = inventory.hashOf('a');
    expect(kept.sort()).toEqual([`${tag}:events:${hash}`, `${tag}:tombstone:${hash}`]);
    for (const key of kept) expect(await raw.pttl(key)).toBeGreaterThan(3_500_000);
    expect((await inventory.list({ limit: 10 })).items).toEqual([]);
  });

  test('is seen by a job that comes too late as missing, and a launch starts over (C14)', async () => {
    const { inventory } = world;
    const first = await ready(inventory, 'a');
    await tearDown(inventory, 'a');
    const ended = await inventory.tombstone('a');
    const late = { verb: 'launch' as const, generation: first.generation, run: 1 };
    expect(await inventory.begin('a', late)).toEqual({ kind: 'missing' });
    const second = await intend(inventory, 'a', { requestHash: 'h2' });
    expect(second.generation).toBeGreaterThan(ended?.generation ?? Number.POSITIVE_INFINITY);
    expect(await inventory.tombstone('a')).toBeUndefined();
    expect(await inventory.begin('a', late)).toEqual({ kind: 'superseded' });
    const types = (await inventory.events('a', 0, 10)).map((event) => [event.seq, event.type]);
    expect(types).toEqual([
      [1, 'requested'],
      [2, 'ready'],
      [3, 'removing'],
      [4, 'gone'],
      [5, 'requested'],
    ]);
    expect(await world.raw.pttl(`${tag}:events:${inventory.hashOf('a')}`)).toBe(-1);
  });

  test('hands over to a launch that waited: requested, its own placement, nothing of the old objects', async () => {
    const { inventory } = world;
    const first = await intend(inventory, 'a', { sealedEnv: 'old' });
    const launched = await begin(inventory, 'a', first, { set: { namespace: 'ns', snapshot: 's' } });
    const pod = { name: 'p', uid: 'u', node: '', ip: '', createdByGeneration: first.generation };
    await inventory.write(launched.lease, { state: 'ready', set: { pod }, secrets: { agentToken: 't' }, release: true });
    const removal = await remove(inventory, 'a');
    const { lease } = await begin(inventory, 'a', removal, { verb: 'teardown' });
    const next = await intend(inventory, 'a', { requestHash: 'h2', cluster: 'second', profile: 'go', sealedEnv: 'new' });
    expect(next).toMatchObject({ kind: 'accepted', state: 'removing' });
    expect(await intend(inventory, 'a', { requestHash: 'h2' })).toMatchObject({
      kind: 'deduplicated',
      generation: next.generation,
    });
    expect(await inventory.intendLaunch(launchOf('a', { requestHash: 'h3' }))).toEqual({ kind: 'conflict' });
    // Until the removal ended, the record still says where the old objects are.
    expect(await inventory.read('a')).toMatchObject({ cluster: 'default', namespace: 'ns', pod, removeUpTo: removal.generation });
    const begun = { verb: 'launch' as const, generation: next.generation, run: 1 };
    expect(await inventory.begin('a', begun)).toEqual({ kind: 'wait', reason: 'removing' });
    expect(await inventory.finishRemoval(lease, { generation: removal.generation, suspended: false })).toBe('requested');
    const fresh = { state: 'requested', cluster: 'second', profile: 'go', namespace: '', snapshot: '', pod: null, removeUpTo: 0 };
    expect(await inventory.read('a')).toMatchObject({ ...fresh, creates: {}, stages: [], generation: next.generation });
    expect(await inventory.secrets(inventory.hashOf('a'))).toEqual({ sealedEnv: 'new' });
    expect((await inventory.begin('a', begun)).kind).toBe('ok');
  });

  test('that keeps the workspace is suspended; a later launch goes on from it, on its cluster', async () => {
    const { inventory } = world;
    await ready(inventory, 'a');
    const removal = await remove(inventory, 'a', 'suspended');
    const { lease } = await begin(inventory, 'a', removal, { verb: 'teardown' });
    const claim = { mode: 'managed_pvc' as const, claimName: 'c', claimUid: 'u', created: true, createdByGeneration: 1 };
    await inventory.write(lease, { set: { workspace: claim } });
    expect(await inventory.finishRemoval(lease, { generation: removal.generation, suspended: true })).toBe('suspended');
    expect(await inventory.read('a')).toMatchObject({ state: 'suspended', intent: 'suspended', workspace: claim, pod: null });
    const next = await intend(inventory, 'a', { cluster: 'second', profile: 'go', requestHash: 'h2' });
    expect(next).toMatchObject({ kind: 'accepted', state: 'suspended' });
    expect(await intend(inventory, 'a', { requestHash: 'h2' })).toMatchObject({
      kind: 'deduplicated',
      generation: next.generation,
    });
    const { record } = await begin(inventory, 'a', next);
    expect(record).toMatchObject({
      state: 'launching',
      before: 'suspended',
      cluster: 'default',
      profile: 'go',
      workspace: claim,
    });
  });

  test('that keeps the workspace hands it to a launch that waited', async () => {
    const { inventory } = world;
    await ready(inventory, 'a');
    const removal = await remove(inventory, 'a', 'suspended');
    const { lease } = await begin(inventory, 'a', removal, { verb: 'teardown' });
    const next = await intend(inventory, 'a', { profile: 'go' });
    expect(await inventory.finishRemoval(lease, { generation: removal.generation, suspended: true })).toBe('suspended');
    const { record } = await begin(inventory, 'a', next);
    expect(record).toMatchObject({ state: 'launching', before: 'suspended', profile: 'go', intent: 'present' });
  });

  test('takes later removals of the same instance with it, and their jobs find nothing to do', async () => {
    const { inventory } = world;
    await ready(inventory, 'a');
    const first = await remove(inventory, 'a');
    const { lease } = await begin(inventory, 'a', first, { verb: 'teardown' });
    await intend(inventory, 'a', { requestHash: 'h2' });
    const second = await remove(inventory, 'a');
    expect(second.generation).toBeGreaterThan(first.generation);
    expect(await inventory.finishRemoval(lease, { generation: first.generation, suspended: false })).toBe('gone');
    const late = { verb: 'teardown' as const, generation: second.generation, run: 1 };
    expect(await inventory.begin('a', late)).toEqual({ kind: 'missing' });
    const third = await intend(inventory, 'a', { requestHash: 'h3' });
    expect(third.generation).toBeGreaterThan(second.generation);
    expect((await inventory.begin('a', late)).kind).toBe('settled');
  });

  test('of a stale fence is refused and removes nothing', async () => {
    const { inventory, raw } = world;
    const other = await world.open({ holder: 'worker-2' });
    await ready(inventory, 'a');
    const removal = await remove(inventory, 'a');
    const old = await begin(inventory, 'a', removal, { verb: 'teardown' });
    await raw.del(`${tag}:lease:${inventory.hashOf('a')}`);
    await begin(other, 'a', removal, { verb: 'teardown' });
    const finish = inventory.finishRemoval(old.lease, { generation: removal.generation, suspended: false });
    expect(await refusal(finish)).toBe('lease_lost');
    expect((await inventory.read('a'))?.state).toBe('removing');
  });

  test('by a launch job is refused: only a removal ends a record', async () => {
    const { inventory } = world;
    const accepted = await intend(inventory, 'a');
    const { lease } = await begin(inventory, 'a', accepted);
    const finish = inventory.finishRemoval(lease, { generation: accepted.generation, suspended: false });
    expect(await refusal(finish)).toBe('superseded');
    expect((await inventory.read('a'))?.state).toBe('launching');
  });

  test('reaches a request that never began', async () => {
    const { inventory } = world;
    const launch = await intend(inventory, 'a');
    expect(await tearDown(inventory, 'a')).toBe('gone');
    expect(await inventory.begin('a', { verb: 'launch', generation: launch.generation, run: 1 })).toEqual({ kind: 'missing' });
  });
});

test('fences of a relaunched name rise above those of its earlier life, even when the clock stepped back', async () => {
  const { inventory, raw } = world;
  await ready(inventory, 'a');
  await raw.hset(`${tag}:record:${inventory.hashOf('a')}`, 'fence', '9000000000000000');
  expect(await tearDown(inventory, 'a')).toBe('gone');
  const { lease } = await begin(inventory, 'a', await intend(inventory, 'a'));
  expect(BigInt(lease.fence)).toBeGreaterThan(9000000000000000n);
});
