import { describe, expect, it } from 'vitest';
import type { RecoveredRecord } from '../../src/inventory/port.ts';
import type { InstanceRecord } from '../../src/inventory/types.ts';
import { jobOf } from '../../src/jobs/sweeps/stuck.ts';
import { begin, intend, launchOf, ready, refusal, remove, tearDown, useWorld } from './inventory-support.ts';

const world = useWorld();
const expiry = async (id: string) => (await world.inventory.read(id))?.expiresAt ?? 0;

describe('an extension', () => {
  const times = { by: 3_600_000, longest: 7_200_000, suspended: 1_000_000 };
  const readyWithExpiry = async (id: string, expiresAt: number, readyAt: number) => {
    const accepted = await intend(world.inventory, id);
    const { lease } = await begin(world.inventory, id, accepted);
    await world.inventory.write(lease, { state: 'ready', set: { expiresAt, readyAt }, release: true });
  };

  it('moves the end later, at most to the limit, and never earlier', async () => {
    const now = await world.inventory.now();
    await readyWithExpiry('a', now + 1_800_000, now);
    expect(await world.inventory.extend({ instanceId: 'a', ...times })).toEqual({
      kind: 'ok',
      expiresAt: now + 5_400_000,
      clamped: false,
    });
    expect(await world.inventory.extend({ instanceId: 'a', ...times })).toEqual({
      kind: 'ok',
      expiresAt: now + 7_200_000,
      clamped: true,
    });
    expect(await expiry('a')).toBe(now + 7_200_000);
    expect(await world.inventory.extend({ instanceId: 'a', ...times, longest: 1000 })).toMatchObject({ clamped: true });
    expect(await expiry('a')).toBe(now + 7_200_000);
    expect(await world.inventory.expired(now + 7_200_000, 10)).toHaveLength(1);
  });

  it('is refused for what does not run, is unknown, is gone, or is another owner’s', async () => {
    await intend(world.inventory, 'waits');
    expect(await world.inventory.extend({ instanceId: 'waits', ...times })).toEqual({ kind: 'unfit', state: 'requested' });
    expect(await world.inventory.extend({ instanceId: 'never', ...times })).toEqual({ kind: 'missing' });
    await ready(world.inventory, 'mine');
    expect(await world.inventory.extend({ instanceId: 'mine', owner: 'bob', ...times })).toEqual({ kind: 'missing' });
    await tearDown(world.inventory, 'mine');
    expect(await world.inventory.extend({ instanceId: 'mine', ...times })).toEqual({ kind: 'gone' });
  });
});

describe('a removal that a sweep asks for', () => {
  it('is not made when the record changed since the sweep looked', async () => {
    const { generation } = await ready(world.inventory, 'a');
    const payload = { version: 1, instanceId: 'a' };
    const ask = (expected: { generation: number; expiresAt: number }) =>
      world.inventory.intendSweptRemoval({ instanceId: 'a', intent: 'absent', payload, expected, events: [{ type: 'expired' }] });
    expect(await ask({ generation: generation - 1, expiresAt: 0 })).toEqual({ kind: 'changed' });
    expect(await ask({ generation, expiresAt: 5 })).toEqual({ kind: 'changed' });
    expect((await world.inventory.read('a'))?.intent).toBe('present');
    expect(await ask({ generation, expiresAt: 0 })).toMatchObject({ kind: 'accepted' });
    const events = await world.inventory.events('a', 0, 100);
    expect(events.at(-1)).toMatchObject({ type: 'expired' });
  });

  it('of a kept workspace gives the suspended record a new end', async () => {
    await ready(world.inventory, 'a');
    const { generation, run } = await remove(world.inventory, 'a', 'suspended');
    const { lease } = await begin(world.inventory, 'a', { generation, run }, { verb: 'teardown' });
    await world.inventory.finishRemoval(lease, { generation, suspended: true, expiresInMs: 60_000 });
    const left = (await expiry('a')) - (await world.inventory.now());
    expect(left).toBeGreaterThan(50_000);
    expect(left).toBeLessThanOrEqual(60_000);
  });
});

describe('a half-way record whose job is lost', () => {
  const lease = async (id: string) => {
    const taken = await world.inventory.tryLease(world.inventory.hashOf(id));
    if (taken === undefined) throw new Error('not leased');
    return taken;
  };
  const pendingIds = async () => (await world.inventory.stalePending(-1000)).map((job) => job.jobId);

  it('gets it back by its id, and a new run when that id has ended', async () => {
    const { job, generation } = await intend(world.inventory, 'a');
    await world.inventory.clearPending(job.jobId);
    const first = await lease('a');
    expect(await world.inventory.requeue(first, false)).toEqual({ jobId: job.jobId });
    expect(await pendingIds()).toEqual([job.jobId]);
    const again = await world.inventory.requeue(first, true);
    expect(again?.jobId).toBe(job.jobId.replace(/-1$/, '-2'));
    await first.release();
    expect(await begin(world.inventory, 'a', { generation, run: 2 })).toMatchObject({ kind: 'ok' });
  });

  it('of a removal that a newer launch waits for, the removal is added again', async () => {
    await ready(world.inventory, 'a');
    const removal = await remove(world.inventory, 'a');
    await world.inventory.clearPending(removal.job.jobId);
    const launch = await intend(world.inventory, 'a', { requestHash: 'h2' });
    await world.inventory.clearPending(launch.job.jobId);
    const held = await lease('a');
    expect(await world.inventory.requeue(held, false)).toEqual({ jobId: removal.job.jobId });
    const fresh = await world.inventory.requeue(held, true);
    expect(fresh?.jobId).toBe(removal.job.jobId.replace(/-1$/, '-2'));
    await held.release();
    const record = (await world.inventory.read('a')) as InstanceRecord;
    expect(record.run).toBe(1);
    expect(jobOf(record)).toEqual({ queue: 'teardown', jobId: fresh?.jobId });
  });

  it('of a removal that was asked for again before the launch behind it: the newer run is the one that is looked for', async () => {
    await ready(world.inventory, 'a');
    const { generation, run } = await remove(world.inventory, 'a');
    const { lease: removing } = await begin(world.inventory, 'a', { generation, run }, { verb: 'teardown' });
    await world.inventory.write(removing, { state: 'cleanup_pending', release: true });
    const again = await remove(world.inventory, 'a');
    expect(again).toMatchObject({ generation, run: 2 });
    await intend(world.inventory, 'a', { requestHash: 'h2' });
    expect(jobOf((await world.inventory.read('a')) as InstanceRecord).jobId).toBe(again.job.jobId);
    const held = await lease('a');
    expect(await world.inventory.requeue(held, false)).toEqual({ jobId: again.job.jobId });
    await held.release();
  });
});

describe('a recovered record', () => {
  const recovered = (id: string, more: Partial<RecoveredRecord['fields']> = {}): RecoveredRecord => ({
    instanceId: id,
    owner: 'ann',
    fields: {
      state: 'ready',
      intent: 'present',
      generation: 100,
      run: 1,
      request: { payload: { version: 1, instanceId: id, profile: 'node' }, requestHash: '' },
      cluster: 'default',
      profile: 'node',
      app: '',
      attemptsLeft: 3,
      limits: {},
      lifetime: null,
      createdAt: 50,
      readyAt: 60,
      deadlineAt: 0,
      expiresAt: 4_000_000_000_000,
      recovered: true,
      missing: ['env'],
      ...more,
    },
    secrets: { agentToken: 'sealed' },
    events: [{ type: 'recovered', missing: ['env'] }],
  });
  const halfGone = { state: 'removing', removeUpTo: 100, removeRun: 1, removal: { version: 1, instanceId: 'a' } } as const;
  const recover = async (record: RecoveredRecord) => {
    const lease = await world.inventory.tryLease(world.inventory.hashOf(record.instanceId));
    if (lease === undefined) throw new Error('not leased');
    try {
      return await world.inventory.recover(lease, record);
    } finally {
      await lease.release();
    }
  };

  it('is a whole record: listed, counted, with its secrets and its event, and the same launch completes it', async () => {
    expect(await recover(recovered('a'))).toBe('recovered');
    expect(await world.inventory.read('a')).toMatchObject({ state: 'ready', recovered: true, missing: ['env'], generation: 100 });
    expect((await world.inventory.counts()).ready).toBe(1);
    expect(await world.inventory.secrets(world.inventory.hashOf('a'))).toEqual({ agentToken: 'sealed' });
    expect(await world.inventory.events('a', 0, 10)).toMatchObject([{ seq: 1, type: 'recovered', missing: ['env'] }]);
    expect(await recover(recovered('a'))).toBe('known');
    const answer = await world.inventory.intendLaunch(launchOf('a'));
    expect(answer).toMatchObject({ kind: 'deduplicated', generation: 100, state: 'ready' });
    expect(await world.inventory.read('a')).toMatchObject({ missing: [], request: { requestHash: 'h1' } });
    expect(await world.inventory.intendLaunch(launchOf('a', { requestHash: 'h2' }))).toEqual({ kind: 'conflict' });
  });

  it('needs the lease on its name', async () => {
    const lease = await world.inventory.tryLease(world.inventory.hashOf('a'));
    await world.raw.flushall();
    expect(await refusal(world.inventory.recover(lease!, recovered('a')))).toBe('lease_lost');
  });

  it('does not come back once it is gone, or where a newer generation is known', async () => {
    await ready(world.inventory, 'a');
    expect(await recover(recovered('a'))).toBe('known');
    await tearDown(world.inventory, 'a');
    expect(await recover(recovered('a'))).toBe('known');
    expect(await world.inventory.read('a')).toBeUndefined();
  });

  it('replaces the record of an older generation that an old backup brought back', async () => {
    const old = await ready(world.inventory, 'a');
    expect(await recover(recovered('a', { generation: old.generation + 5 }))).toBe('recovered');
    expect(await world.inventory.read('a')).toMatchObject({ generation: old.generation + 5, recovered: true });
    expect((await world.inventory.list({ limit: 10 })).items).toHaveLength(1);
  });

  it('is the answer to a launch of the same name that waits', async () => {
    const waiting = await intend(world.inventory, 'a');
    expect(await recover(recovered('a'))).toBe('recovered');
    const record = await world.inventory.read('a');
    expect(record).toMatchObject({ state: 'ready', generation: waiting.generation, request: { requestHash: 'h1' } });
    const begun = await world.inventory.begin('a', { verb: 'launch', generation: waiting.generation, run: waiting.run });
    expect(begun).toMatchObject({ kind: 'settled', record: { state: 'ready' } });
  });

  it('of a half-done removal is removed, and the launch that waits starts from nothing', async () => {
    const waiting = await intend(world.inventory, 'a');
    await world.inventory.clearPending(waiting.job.jobId);
    const removal = { version: 1, instanceId: 'a' };
    expect(await recover(recovered('a', { state: 'removing', intent: 'absent', removeUpTo: 100, removeRun: 1, removal }))).toBe(
      'recovered',
    );
    const [job] = await world.inventory.stalePending(-1000);
    expect(job).toMatchObject({ queue: 'teardown', data: { generation: 100 } });
    const { lease } = await begin(world.inventory, 'a', { generation: 100, run: 1 }, { verb: 'teardown' });
    expect(await world.inventory.finishRemoval(lease, { generation: 100, suspended: false })).toBe('requested');
    // What the launch asked for is all there: were its Pod lost one day, nothing would stand against building it again.
    const asked = { generation: waiting.generation, missing: [], lifetime: { maxSeconds: 60 }, limits: { cpu: '1' } };
    expect(await world.inventory.read('a')).toMatchObject({ state: 'requested', ...asked });
  });

  it.each(['suspended', 'lost'] as const)(
    'that is %s is started by the launch that waits for as long as that one asked',
    async (state) => {
      await intend(world.inventory, 'a');
      const found = { state, intent: state === 'lost' ? 'present' : state, lifetime: { maxSeconds: 5 } } as const;
      expect(await recover(recovered('a', found))).toBe('recovered');
      expect(await world.inventory.read('a')).toMatchObject({ state, intent: 'present', lifetime: { maxSeconds: 60 } });
    },
  );

  it.each<[string, Partial<RecoveredRecord['fields']>, 'absent' | 'suspended', string]>([
    ['a ready one', {}, 'absent', 'absent'],
    ['a ready one, with its workspace kept', {}, 'suspended', 'suspended'],
    ['a suspended one', { state: 'suspended', intent: 'suspended' }, 'absent', 'absent'],
    ['the rest of a removal of everything', { ...halfGone, intent: 'absent' }, 'suspended', 'absent'],
    ['the rest of a removal that kept the workspace', { ...halfGone, intent: 'suspended' }, 'absent', 'absent'],
  ])('%s is removed by the teardown of a launch that waited for it: a recovery was at work when it came', async (...row) => {
    const [, found, asked, intent] = row;
    await intend(world.inventory, 'a');
    const removal = await remove(world.inventory, 'a', asked);
    expect(await recover(recovered('a', found))).toBe('recovered');
    const upTo = { removeUpTo: removal.generation, removeRun: 1 };
    expect(await world.inventory.read('a')).toMatchObject({ intent, generation: removal.generation, ...upTo });
    const { lease } = await begin(world.inventory, 'a', removal, { verb: 'teardown' });
    expect(await world.inventory.finishRemoval(lease, { generation: removal.generation, suspended: false })).toBe('gone');
  });

  it('is not handed to a launch that came behind the teardown of one that waited: that one starts from nothing', async () => {
    await intend(world.inventory, 'a');
    const removal = await remove(world.inventory, 'a');
    const behind = await intend(world.inventory, 'a', { requestHash: 'h2', profile: 'python' });
    expect(await recover(recovered('a'))).toBe('recovered');
    const { lease } = await begin(world.inventory, 'a', removal, { verb: 'teardown' });
    expect(await world.inventory.finishRemoval(lease, { generation: removal.generation, suspended: false })).toBe('requested');
    await begin(world.inventory, 'a', behind);
    expect(await world.inventory.read('a')).toMatchObject({
      state: 'launching',
      intent: 'present',
      profile: 'python',
      lifetime: { maxSeconds: 60 },
    });
  });

  it('is not written over by a launch that had looked before it: that one looks again', async () => {
    const waiting = await intend(world.inventory, 'a');
    const seen = (await world.inventory.read('a'))?.version;
    expect(await recover(recovered('a', { state: 'lost' }))).toBe('recovered');
    const before = {
      verb: 'launch',
      generation: waiting.generation,
      run: 1,
      set: { creates: {}, snapshot: 'of today' },
    } as const;
    expect((await world.inventory.begin('a', { ...before, seen: seen ?? 0 })).kind).toBe('changed');
    expect(await world.inventory.read('a')).toMatchObject({ state: 'lost', snapshot: '', missing: [] });
  });
});
