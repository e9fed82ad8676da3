import { describe, expect, test } from 'vitest';
import { begin, intend, launchOf, ready, refusal, remove, tearDown, useWorld } from './inventory-support.ts';

const world = useWorld();

describe('a launch intent', () => {
  test('makes a record, an event and a pending job that holds a reference only', async () => {
    const { inventory } = world;
    const before = await inventory.now();
    const answer = await intend(inventory, 'a');
    const hash = inventory.hashOf('a');
    expect(answer).toMatchObject({ kind: 'accepted', run: 1, state: 'requested' });
    expect(answer.generation).toBeGreaterThanOrEqual(before);
    expect(answer.job).toEqual({
      queue: 'launch',
      name: 'launch',
      jobId: `launch-${hash}-${answer.generation}-1`,
      data: { version: 1, instanceId: 'a', generation: answer.generation, run: 1 },
      priority: 1001,
    });
    const record = await inventory.read('a');
    expect(record).toMatchObject({
      state: 'requested',
      intent: 'present',
      owner: 'ann',
      attemptsLeft: 3,
      request: { requestHash: 'h1' },
    });
    expect(record?.deadlineAt).toBe((record?.createdAt ?? 0) + 600_000);
    expect((await inventory.events('a', 0, 10)).map((event) => event.type)).toEqual(['requested']);
    expect(await inventory.stalePending(0)).toEqual([answer.job]);
    await inventory.clearPending(answer.job.jobId);
    expect(await inventory.stalePending(0)).toEqual([]);
  });

  test('asked again with the same content gives the same job and makes nothing new', async () => {
    const { inventory } = world;
    const first = await intend(inventory, 'a');
    const second = await intend(inventory, 'a');
    expect(second).toMatchObject({ kind: 'deduplicated', generation: first.generation, run: first.run });
    expect(second.job.jobId).toBe(first.job.jobId);
    expect(await inventory.events('a', 0, 10)).toHaveLength(1);
  });

  test('with other content is a conflict while the instance lives', async () => {
    const { inventory } = world;
    await ready(inventory, 'a');
    expect(await inventory.intendLaunch(launchOf('a', { requestHash: 'h2' }))).toEqual({ kind: 'conflict' });
  });

  test('of another owner is refused while the record and while the tombstone last', async () => {
    const { inventory } = world;
    await ready(inventory, 'a');
    const other = launchOf('a', { owner: 'bob' });
    expect(await inventory.intendLaunch(other)).toEqual({ kind: 'taken' });
    expect(await tearDown(inventory, 'a')).toBe('gone');
    expect(await inventory.intendLaunch(other)).toEqual({ kind: 'taken' });
    await world.raw.del(`{windlass:test:inventory}:tombstone:${inventory.hashOf('a')}`);
    expect(await inventory.intendLaunch(other)).toMatchObject({ kind: 'accepted' });
  });

  test('for a ready instance with reconnect is a new run, once, until that run begins', async () => {
    const { inventory } = world;
    const first = await ready(inventory, 'a');
    const again = await intend(inventory, 'a', { reconnect: true });
    expect(again).toMatchObject({ kind: 'accepted', generation: first.generation, run: 2, state: 'ready' });
    expect(await intend(inventory, 'a', { reconnect: true })).toMatchObject({ kind: 'deduplicated', run: 2 });
    const old = await inventory.begin('a', { verb: 'launch', generation: first.generation, run: 1 });
    expect(old).toEqual({ kind: 'superseded' });
    expect((await begin(inventory, 'a', again)).record).toMatchObject({ state: 'ready', run: 2 });
  });

  test('for a lost instance is a new run that starts its stages again', async () => {
    const { inventory } = world;
    await ready(inventory, 'a');
    const lease = await inventory.tryLease(inventory.hashOf('a'));
    await inventory.write(lease!, { state: 'lost', set: { stages: [{ name: 'pod', state: 'done' }] }, release: true });
    const again = await intend(inventory, 'a');
    expect(again).toMatchObject({ kind: 'accepted', run: 2, state: 'lost' });
    const { record } = await begin(inventory, 'a', again);
    expect(record).toMatchObject({ state: 'launching', before: 'lost', stages: [] });
  });

  test('with reconnect keeps the sealed secrets that nobody sent again; a plain one drops them', async () => {
    const { inventory } = world;
    await ready(inventory, 'a', { sealedEnv: 'sealed-1' });
    await intend(inventory, 'a', { reconnect: true });
    expect(await inventory.secrets(inventory.hashOf('a'))).toEqual({ sealedEnv: 'sealed-1' });
    await ready(inventory, 'b', { sealedEnv: 'sealed-2' });
    const lease = await inventory.tryLease(inventory.hashOf('b'));
    await inventory.write(lease!, { state: 'lost', release: true });
    await intend(inventory, 'b');
    expect(await inventory.secrets(inventory.hashOf('b'))).toEqual({});
  });

  test('counts the rebuilds of a generation anew', async () => {
    const { inventory } = world;
    const first = await ready(inventory, 'a');
    const lease = await inventory.tryLease(inventory.hashOf('a'));
    await inventory.write(lease!, { state: 'suspended', set: { rebuilds: 1 }, release: true });
    const second = await intend(inventory, 'a');
    expect(second.generation).toBeGreaterThan(first.generation);
    expect((await inventory.read('a'))?.rebuilds).toBe(0);
  });

  test('after a failure is a new generation without the failure', async () => {
    const { inventory } = world;
    const first = await intend(inventory, 'a', { sealedEnv: 'sealed-1' });
    const { lease } = await begin(inventory, 'a', first);
    const failure = failureOf(first.generation);
    await inventory.write(lease, { state: 'rolling_back', set: { failure } });
    await inventory.write(lease, { state: 'failed', set: { attemptsLeft: 0 }, release: true });
    expect((await inventory.read('a'))?.failure).toEqual(failure);
    const second = await intend(inventory, 'a', { requestHash: 'h2' });
    expect(second).toMatchObject({ kind: 'accepted', run: 1, state: 'requested' });
    expect(second.generation).toBeGreaterThan(first.generation);
    expect(await inventory.read('a')).toMatchObject({ failure: null, attemptsLeft: 3, before: 'requested' });
    expect(await inventory.secrets(inventory.hashOf('a'))).toEqual({});
  });

  test('keeps sealed secrets beside the record, never in it', async () => {
    const { inventory } = world;
    await intend(inventory, 'a', { sealedEnv: 'sealed-map' });
    expect(await inventory.secrets(inventory.hashOf('a'))).toEqual({ sealedEnv: 'sealed-map' });
    expect(JSON.stringify(await inventory.read('a'))).not.toContain('sealed-map');
  });

  test('gives generations that rise even when the clock of Redis stepped back', async () => {
    const { inventory, raw } = world;
    await intend(inventory, 'a');
    const hash = inventory.hashOf('a');
    const future = Date.now() + 86_400_000;
    await raw.hset(`{windlass:test:inventory}:record:${hash}`, 'generation', future, 'state', 'failed');
    expect((await intend(inventory, 'a')).generation).toBe(future + 1);
  });

  test('puts the launches of one owner behind each other, and an urgent one before them', async () => {
    const { inventory } = world;
    for (let at = 0; at < 5; at++) await intend(inventory, `a${at}`);
    const own = await intend(inventory, 'a5');
    const other = await intend(inventory, 'b', { owner: 'bob' });
    const urgent = await intend(inventory, 'a6', { payload: { priority: 'high' } });
    const patient = await intend(inventory, 'c', { owner: 'cid', payload: { priority: 'low' } });
    expect(own.job.priority).toBe(1006);
    expect(other.job.priority).toBe(1001);
    expect(urgent.job.priority).toBeLessThan(other.job.priority);
    expect(patient.job.priority).toBeGreaterThan(own.job.priority);
  });

  test('of a raw job is made once, however often the job starts', async () => {
    const { inventory } = world;
    const first = await intend(inventory, 'a', { rawJobId: '17' });
    const { lease } = await begin(inventory, 'a', first);
    await inventory.write(lease, { state: 'rolling_back' });
    await inventory.write(lease, { state: 'failed', set: { attemptsLeft: 0 }, release: true });
    const again = await intend(inventory, 'a', { rawJobId: '17' });
    expect(again).toMatchObject({ kind: 'deduplicated', generation: first.generation, run: first.run });
    expect((await inventory.read('a'))?.generation).toBe(first.generation);
  });
});

describe('a removal intent', () => {
  test('of another owner is answered as if the instance were not there', async () => {
    const { inventory } = world;
    await ready(inventory, 'a');
    const ask = (owner: string) => inventory.intendRemoval({ instanceId: 'a', owner, intent: 'absent', payload: {} });
    expect(await ask('bob')).toEqual({ kind: 'missing' });
    expect((await inventory.read('a'))?.intent).toBe('present');
    await tearDown(inventory, 'a');
    expect(await ask('bob')).toEqual({ kind: 'missing' });
    expect(await ask('ann')).toEqual({ kind: 'gone' });
  });

  test('asked twice is one removal', async () => {
    const { inventory } = world;
    await ready(inventory, 'a');
    const first = await remove(inventory, 'a');
    expect(await remove(inventory, 'a')).toMatchObject({ kind: 'deduplicated', generation: first.generation });
    expect(await remove(inventory, 'a', 'suspended')).toMatchObject({ kind: 'deduplicated', generation: first.generation });
    expect((await inventory.read('a'))?.intent).toBe('absent');
  });

  test('of everything after one that keeps the workspace is a removal of its own', async () => {
    const { inventory } = world;
    await ready(inventory, 'a');
    const keep = await remove(inventory, 'a', 'suspended');
    const all = await remove(inventory, 'a');
    expect(all.generation).toBeGreaterThan(keep.generation);
    const first = await begin(inventory, 'a', keep, { verb: 'teardown' });
    expect(await inventory.finishRemoval(first.lease, { generation: keep.generation, suspended: true })).toBe('suspended');
    expect(await inventory.read('a')).toMatchObject({ state: 'suspended', intent: 'absent', removeUpTo: all.generation });
    const second = await begin(inventory, 'a', all, { verb: 'teardown' });
    expect(await inventory.finishRemoval(second.lease, { generation: all.generation, suspended: false })).toBe('gone');
  });

  test('of an instance whose clean-up gave up gets a job that the queue does not know yet', async () => {
    const { inventory } = world;
    await ready(inventory, 'a');
    const first = await remove(inventory, 'a');
    const { lease } = await begin(inventory, 'a', first, { verb: 'teardown' });
    await inventory.write(lease, { state: 'cleanup_pending', release: true });
    const again = await remove(inventory, 'a');
    expect(again).toMatchObject({ kind: 'accepted', generation: first.generation, run: 2 });
    expect((await begin(inventory, 'a', again, { verb: 'teardown' })).record.state).toBe('removing');
  });

  test('keeps its payload for the handler', async () => {
    const { inventory } = world;
    await ready(inventory, 'a');
    await inventory.intendRemoval({ instanceId: 'a', intent: 'absent', payload: { force: true, cleanup: 'rm -rf x' } });
    expect((await inventory.read('a'))?.removal).toEqual({ force: true, cleanup: 'rm -rf x' });
  });
});

test('a record of a newer version is left alone: reads and writes are refused', async () => {
  const { inventory, raw } = world;
  const accepted = await intend(inventory, 'a');
  const key = `{windlass:test:inventory}:record:${inventory.hashOf('a')}`;
  await raw.hset(key, 'novelty', '1');
  expect(await refusal(inventory.read('a'))).toBe('record_newer');
  await raw.hdel(key, 'novelty');
  await raw.hset(key, 'schema', '2');
  expect(await refusal(inventory.list({ limit: 10 }))).toBe('record_newer');
  expect(await refusal(begin(inventory, 'a', accepted))).toBe('record_newer');
  expect(await refusal(remove(inventory, 'a'))).toBe('record_newer');
  expect(await raw.hget(key, 'intent')).toBe('present');
});

const failureOf = (generation: number) => ({
  code: 'crash_loop' as const,
  message: 'it crashed',
  retriable: false,
  issues: [],
  hint: '',
  stage: 'pod',
  generation,
  run: 1,
  evidence: { tail: 'x' },
  attemptsLeft: 0,
  at: 1,
});
