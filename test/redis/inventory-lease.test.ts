import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { afterEach, describe, expect, test } from 'vitest';
import type { EffectMessage } from '../../src/effects.ts';
import { begin, intend, ready, refusal, remove, tag, until, useWorld } from './inventory-support.ts';

const world = useWorld();
const leaseKey = (id: string) => `${tag}:lease:${world.inventory.hashOf(id)}`;

const stops: (() => void)[] = [];
afterEach(() => {
  for (const stop of stops.splice(0)) stop();
});

/** How many renewals went well from now on. */
function renewals(): () => number {
  let count = 0;
  const heard = (message: unknown) => {
    const { phase, name, failed } = message as EffectMessage;
    if (phase === 'after' && name === 'redis.renew' && !failed) count += 1;
  };
  subscribe('windlass:effect', heard);
  stops.push(() => void unsubscribe('windlass:effect', heard));
  return () => count;
}

describe('a lease', () => {
  test('is held by one worker; the other is told to wait (C04)', async () => {
    const { inventory } = world;
    const other = await world.open({ holder: 'worker-2' });
    const accepted = await intend(inventory, 'a');
    await begin(inventory, 'a', accepted);
    const second = await other.begin('a', { verb: 'launch', generation: accepted.generation, run: 1 });
    expect(second).toEqual({ kind: 'wait', reason: 'lease_held' });
    expect(await other.leaseHolder(inventory.hashOf('a'))).toMatchObject({ holder: 'worker-1' });
  });

  test('begun again by the same worker and job is renewed under the same fence, and the earlier handler loses it', async () => {
    const { inventory } = world;
    const accepted = await intend(inventory, 'a');
    const first = await begin(inventory, 'a', accepted);
    const second = await begin(inventory, 'a', accepted);
    expect(second.lease.fence).toBe(first.lease.fence);
    expect(second.record.crashes).toBe(1);
    expect(first.lease.held()).toBe(false);
    expect(first.lease.signal.reason).toMatchObject({ code: 'lease_lost' });
    expect(await refusal(inventory.write(first.lease, { set: { restartCount: 1 } }))).toBe('lease_lost');
    await first.lease.release();
    await inventory.write(second.lease, { set: { restartCount: 2 } });
    expect(second.lease.held()).toBe(true);
  });

  test('that expired is taken over, and the stale fence of the old holder is refused (C04)', async () => {
    const { inventory, raw } = world;
    const other = await world.open({ holder: 'worker-2' });
    const accepted = await intend(inventory, 'a');
    const old = await begin(inventory, 'a', accepted);
    await raw.del(leaseKey('a'));
    const taken = await begin(other, 'a', accepted);
    expect(BigInt(taken.lease.fence)).toBeGreaterThan(BigInt(old.lease.fence));
    expect(taken.record.crashes).toBe(2);
    expect(await refusal(inventory.write(old.lease, { state: 'ready' }))).toBe('lease_lost');
    expect((await other.read('a'))?.state).toBe('launching');
    await until(() => old.lease.signal.aborted);
    expect(old.lease.signal.reason).toMatchObject({ code: 'lease_lost' });
    expect(() => old.lease.assertHeld()).toThrow(expect.objectContaining({ code: 'lease_lost' }));
  });

  test('is not begun with what was worked out from an older record: a removal that ended between read and begin (C14)', async () => {
    const { inventory } = world;
    await ready(inventory, 'a');
    const removal = await remove(inventory, 'a');
    const next = await intend(inventory, 'a', { requestHash: 'h2' });
    const seen = (await inventory.read('a'))?.version ?? 0;
    const { lease } = await begin(inventory, 'a', removal, { verb: 'teardown' });
    await inventory.finishRemoval(lease, { generation: removal.generation, suspended: false });
    const before = await inventory.read('a');
    const version = before?.version ?? 0;
    const stale = { verb: 'launch', generation: next.generation, run: next.run, set: { snapshot: 'old' } } as const;
    expect(await inventory.begin('a', { ...stale, seen })).toEqual({ kind: 'changed' });
    expect(await inventory.read('a')).toEqual(before);
    expect(await inventory.leaseHolder(inventory.hashOf('a'))).toBeUndefined();
    const answer = await inventory.begin('a', { ...stale, seen: version });
    expect(answer).toMatchObject({ kind: 'ok', record: { snapshot: 'old', version: version + 1 } });
  });

  test('of another worker is not freed by a late release, which is told once (C05)', async () => {
    const { raw } = world;
    const warnings: [object, string][] = [];
    const log = { debug: () => {}, warn: (fields: object, text: string) => void warnings.push([fields, text]) };
    const inventory = await world.open({ log });
    const other = await world.open({ holder: 'worker-2' });
    const accepted = await intend(inventory, 'a');
    const old = await begin(inventory, 'a', accepted);
    await raw.del(leaseKey('a'));
    const taken = await begin(other, 'a', accepted);
    await old.lease.release();
    await old.lease.release();
    const instance = inventory.hashOf('a');
    expect(warnings).toEqual([[{ instance }, 'release refused: another worker has the lease']]);
    expect(await other.leaseHolder(instance)).toMatchObject({ holder: 'worker-2' });
    expect(await raw.hget(leaseKey('a'), 'fence')).toBe(taken.lease.fence);
    await other.write(taken.lease, { set: { restartCount: 1 } });
    expect((await other.read('a'))?.crashes).toBe(2);
  });

  test('is renewed beyond its time and always has one (C06)', async () => {
    const { inventory, raw } = world;
    const { lease } = await begin(inventory, 'a', await intend(inventory, 'a'));
    const renewed = renewals();
    let lowest = 3000;
    // Its time is three seconds, and it is renewed every second: the fifth is beyond it.
    await until(async () => {
      const ttl = await raw.pttl(leaseKey('a'));
      lowest = Math.min(lowest, ttl);
      return renewed() >= 5;
    });
    expect(lowest).toBeGreaterThan(0);
    expect(lease.held()).toBe(true);
  });

  test('is not held any more when the event loop was blocked past its time', async () => {
    const { inventory } = world;
    const { lease } = await begin(inventory, 'a', await intend(inventory, 'a'));
    const end = performance.now() + 3100;
    while (performance.now() < end);
    expect(lease.held()).toBe(false);
    expect(() => lease.assertHeld()).toThrow(expect.objectContaining({ code: 'lease_lost' }));
    await until(() => lease.signal.aborted);
  });

  test('ends in time when Redis stops answering', async () => {
    const { inventory, redis } = world;
    const { lease } = await begin(inventory, 'a', await intend(inventory, 'a'));
    process.kill(redis.pid, 'SIGSTOP');
    try {
      await until(() => lease.signal.aborted);
      expect(lease.signal.reason).toMatchObject({ code: 'lease_lost' });
    } finally {
      process.kill(redis.pid, 'SIGCONT');
    }
    await until(async () => (await inventory.leaseHolder(inventory.hashOf('a'))) === undefined);
  });

  test('is aborted by the message of a newer intent alone, before any renewal has heard of it', async () => {
    const { inventory, raw } = world;
    const { generation, run, ...accepted } = await intend(inventory, 'a');
    const { lease } = await begin(inventory, 'a', { ...accepted, generation, run });
    await until(async () => Number((await raw.pubsub('NUMSUB', `${tag}:intent`))[1]) > 0);
    // The record stays as it is, so that every renewal finds it as it was.
    await raw.publish(`${tag}:intent`, `${inventory.hashOf('a')} ${generation} ${run + 1}`);
    await until(() => lease.signal.aborted);
    expect(lease.signal.reason).toMatchObject({ code: 'superseded' });
  });

  test('is aborted by a newer intent, and says so to every write and release', async () => {
    const { inventory } = world;
    const producer = await world.open({ holder: 'producer' });
    const { lease } = await begin(inventory, 'a', await intend(inventory, 'a'));
    await remove(producer, 'a');
    await until(() => lease.signal.aborted);
    expect(lease.signal.reason).toMatchObject({ code: 'superseded' });
    expect(lease.held()).toBe(false);
    expect(() => lease.assertHeld()).toThrow(expect.objectContaining({ code: 'superseded' }));
    expect(await refusal(inventory.write(lease, { state: 'ready' }))).toBe('superseded');
    await lease.release();
    expect(await inventory.leaseHolder(inventory.hashOf('a'))).toBeUndefined();
  });

  test('hears of a newer intent from its renewal when the message was lost', async () => {
    const { inventory, raw } = world;
    const { lease } = await begin(inventory, 'a', await intend(inventory, 'a'));
    await raw.hincrby(`${tag}:record:${inventory.hashOf('a')}`, 'run', 1);
    await until(() => lease.signal.aborted);
    expect(lease.signal.reason).toMatchObject({ code: 'superseded' });
    expect(await inventory.leaseHolder(inventory.hashOf('a'))).toMatchObject({ holder: 'worker-1' });
  });

  test('of a removal is never superseded (C14)', async () => {
    const { inventory } = world;
    await ready(inventory, 'a');
    const removal = await remove(inventory, 'a');
    const { lease } = await begin(inventory, 'a', removal, { verb: 'teardown' });
    await intend(inventory, 'a', { requestHash: 'h2' });
    const renewed = renewals();
    await until(() => renewed() >= 2);
    expect(lease.held()).toBe(true);
    await inventory.write(lease, { set: { pod: null } });
  });

  test('released is free at once, and releasing again does nothing', async () => {
    const { inventory } = world;
    const accepted = await intend(inventory, 'a');
    const { lease } = await begin(inventory, 'a', accepted);
    await lease.release();
    await lease.release();
    expect(lease.held()).toBe(false);
    expect((await inventory.read('a'))?.crashes).toBe(0);
    expect((await begin(await world.open({ holder: 'worker-2' }), 'a', accepted)).kind).toBe('ok');
  });

  test('grows its fence beyond what a number can hold, digit by digit', async () => {
    const { inventory, raw } = world;
    const accepted = await intend(inventory, 'a');
    await raw.hset(`${tag}:record:${inventory.hashOf('a')}`, 'fence', '99999999999999999999');
    const { lease } = await begin(inventory, 'a', accepted);
    expect(lease.fence).toBe('100000000000000000000');
    await inventory.write(lease, { set: { restartCount: 1 } });
  });
});

describe('a lease for a sweep', () => {
  test('keeps workers off a name without a record, and is superseded by a launch of it', async () => {
    const { inventory } = world;
    const hash = inventory.hashOf('orphan');
    const lease = await inventory.tryLease(hash);
    expect(lease?.held()).toBe(true);
    const other = await world.open({ holder: 'worker-2' });
    expect(await other.tryLease(hash)).toBeUndefined();
    const accepted = await intend(other, 'orphan');
    expect(await other.begin('orphan', { verb: 'launch', generation: accepted.generation, run: 1 })).toEqual({
      kind: 'wait',
      reason: 'lease_held',
    });
    await until(() => lease!.signal.aborted);
    await lease!.release();
    expect((await begin(other, 'orphan', accepted)).kind).toBe('ok');
  });

  test('does not make a record newer, and lets the sweep write until somebody asks for something else', async () => {
    const { inventory } = world;
    await ready(inventory, 'a');
    const before = await inventory.read('a');
    const lease = await inventory.tryLease(inventory.hashOf('a'));
    expect((await inventory.read('a'))?.updatedAt).toBe(before?.updatedAt);
    await inventory.write(lease!, { state: 'lost', events: [{ type: 'lost' }] });
    await remove(inventory, 'a');
    expect(await refusal(inventory.write(lease!, { set: { restartCount: 1 } }))).toBe('superseded');
  });
});
