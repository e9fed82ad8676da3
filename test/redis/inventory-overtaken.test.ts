import { describe, expect, test } from 'vitest';
import { askReconnect, askRetry } from '../../src/producers/again.ts';
import { begin, intend, ready, remove, tearDown, useWorld } from './inventory-support.ts';

const world = useWorld();

/** A record that is ready, lost or failed, as somebody read it before he asked for it again. */
async function seenAs(state: 'ready' | 'lost' | 'failed') {
  const { inventory } = world;
  if (state === 'failed') {
    const { lease } = await begin(inventory, 'a', await intend(inventory, 'a'));
    await inventory.write(lease, { state: 'rolling_back', set: { attemptsLeft: 0 } });
    await inventory.write(lease, { state: 'failed', release: true });
  } else {
    await ready(inventory, 'a');
    const lease = await inventory.tryLease(inventory.hashOf('a'));
    if (lease === undefined) throw new Error('nobody holds it');
    await inventory.write(lease, { ...(state === 'lost' ? { state } : {}), release: true });
  }
  const record = await inventory.read('a');
  if (record === undefined) throw new Error('it is there');
  return record;
}

describe('what was read before a teardown is not brought back by asking for it afterwards', () => {
  test.each(['ready', 'lost'] as const)('C14 I11 a reconnect of a %s instance, or a rebuild of its lost Pod', async (state) => {
    const { inventory } = world;
    const record = await seenAs(state);
    const removal = await remove(inventory, 'a');
    expect(await askReconnect(inventory, record)).toEqual({ kind: 'overtaken' });
    expect(await inventory.read('a')).toMatchObject({ intent: 'absent', generation: removal.generation });
    const { lease } = await begin(inventory, 'a', removal, { verb: 'teardown' });
    await inventory.finishRemoval(lease, { generation: removal.generation, suspended: false });
    expect(await askReconnect(inventory, record)).toEqual({ kind: 'overtaken' });
    expect(await inventory.read('a')).toBeUndefined();
  });

  test('C14 a retry of a failed instance', async () => {
    const { inventory } = world;
    const record = await seenAs('failed');
    expect(await tearDown(inventory, 'a')).toBe('gone');
    expect(await askRetry(inventory, record, '')).toEqual({ kind: 'overtaken' });
    expect(await inventory.read('a')).toBeUndefined();
  });

  test('of two reconnects that read the same, one makes the new run, and the other gets that run', async () => {
    const { inventory } = world;
    const record = await seenAs('ready');
    expect(await askReconnect(inventory, record)).toMatchObject({ kind: 'accepted', run: 2 });
    expect(await askReconnect(inventory, record)).toMatchObject({ kind: 'deduplicated', run: 2 });
  });
});

describe('a removal behind one that has not ended', () => {
  test('I11 which removes everything cannot keep the workspace of what was to go, whichever of their jobs runs', async () => {
    const { inventory } = world;
    await ready(inventory, 'a');
    await remove(inventory, 'a');
    await intend(inventory, 'a', { requestHash: 'h2' });
    const keep = { version: 1, instanceId: 'a', keepWorkspace: true };
    await inventory.intendRemoval({ instanceId: 'a', intent: 'suspended', payload: keep });
    // What a job of either removal would do is what the record says at its begin.
    const record = await inventory.read('a');
    expect(record).toMatchObject({ intent: 'absent' });
    expect(record?.removal).not.toMatchObject({ keepWorkspace: true });
  });

  test('which keeps the workspace may keep it too', async () => {
    const { inventory } = world;
    await ready(inventory, 'a');
    const keep = { version: 1, instanceId: 'a', keepWorkspace: true };
    await inventory.intendRemoval({ instanceId: 'a', intent: 'suspended', payload: keep });
    await intend(inventory, 'a', { requestHash: 'h2' });
    await inventory.intendRemoval({ instanceId: 'a', intent: 'suspended', payload: keep });
    expect(await inventory.read('a')).toMatchObject({ intent: 'suspended', removal: { keepWorkspace: true } });
  });

  test('leaves the launch behind it where that was asked to go: suspend, remove all, launch elsewhere', async () => {
    const { inventory } = world;
    await ready(inventory, 'a');
    const first = await remove(inventory, 'a', 'suspended');
    const { lease } = await begin(inventory, 'a', first, { verb: 'teardown' });
    const second = await remove(inventory, 'a');
    const next = await intend(inventory, 'a', { requestHash: 'h2', cluster: 'second', profile: 'go' });
    expect(await inventory.finishRemoval(lease, { generation: first.generation, suspended: true })).toBe('suspended');
    const all = await begin(inventory, 'a', second, { verb: 'teardown' });
    expect(await inventory.finishRemoval(all.lease, { generation: second.generation, suspended: false })).toBe('requested');
    const { record } = await begin(inventory, 'a', next);
    expect(record).toMatchObject({ state: 'launching', cluster: 'second', profile: 'go', before: 'requested' });
  });
});
