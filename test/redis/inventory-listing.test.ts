import { describe, expect, test } from 'vitest';
import type { ListOptions } from '../../src/inventory/port.ts';
import { begin, intend, launchOf, ready, refusal, remove, tag, tearDown, useWorld } from './inventory-support.ts';

const world = useWorld();

async function walk(options: Omit<ListOptions, 'cursor'>): Promise<string[]> {
  const seen: string[] = [];
  let cursor: string | null | undefined;
  do {
    const page = await world.inventory.list({ ...options, ...(cursor ? { cursor } : {}) });
    expect(page.items.length).toBeLessThanOrEqual(options.limit);
    seen.push(...page.items.map((item) => item.instanceId));
    cursor = page.nextCursor;
  } while (cursor !== null);
  return seen;
}

describe('a listing', () => {
  test('walks all, by owner, by states, newest first, in pages of any size', async () => {
    const { inventory } = world;
    const ids = Array.from({ length: 9 }, (_, at) => `i${at}`);
    for (const [at, id] of ids.entries()) {
      const accepted = await intend(inventory, id, { owner: at % 3 === 0 ? 'bob' : 'ann' });
      if (at % 2 === 0) await begin(inventory, id, accepted);
    }
    for (const limit of [1, 2, 4, 9, 100]) {
      expect((await walk({ limit })).sort()).toEqual(ids);
      expect((await walk({ limit, owner: 'bob' })).sort()).toEqual(['i0', 'i3', 'i6']);
      expect((await walk({ limit, states: ['requested'] })).sort()).toEqual(['i1', 'i3', 'i5', 'i7']);
      expect((await walk({ limit, states: ['requested', 'launching'] })).sort()).toEqual(ids);
      expect((await walk({ limit, owner: 'ann', states: ['launching'] })).sort()).toEqual(['i2', 'i4', 'i8']);
    }
    const created = (await inventory.list({ limit: 100 })).items.map((item) => item.createdAt);
    expect(created).toEqual([...created].sort((a, b) => b - a));
    expect(await inventory.counts()).toMatchObject({ requested: 4, launching: 5, ready: 0 });
  });

  test('goes on where it was although items came and went meanwhile', async () => {
    const { inventory } = world;
    for (const id of ['a', 'b', 'c', 'd']) await ready(inventory, id);
    const first = await inventory.list({ limit: 2 });
    await tearDown(inventory, first.items[1]?.instanceId as string);
    await intend(inventory, 'e');
    const second = await inventory.list({ limit: 10, cursor: first.nextCursor as string });
    const all = ['a', 'b', 'c', 'd'];
    const shown = first.items.map((item) => item.instanceId);
    expect(second.items.map((item) => item.instanceId).sort()).toEqual(all.filter((id) => !shown.includes(id)));
    expect(second.nextCursor).toBeNull();
  });

  test('of what expired gives the longest expired first, and nothing that never expires or is gone', async () => {
    const { inventory } = world;
    for (const [id, expiresAt] of Object.entries({ a: 300, b: 100, c: 0, d: 900 })) {
      const { lease } = await begin(inventory, id, await intend(inventory, id));
      await inventory.write(lease, { state: 'ready', set: { expiresAt }, release: true });
    }
    expect(await inventory.expired(500, 10)).toEqual([inventory.hashOf('b'), inventory.hashOf('a')]);
    await tearDown(inventory, 'b');
    expect(await inventory.expired(500, 10)).toEqual([inventory.hashOf('a')]);
  });
});

const strange = [
  'a',
  'A',
  '-a',
  '_@x.com',
  '/ % {} : * -a',
  '{windlass:test:inventory}',
  '}{',
  'launch|x-1-1',
  '__proto__',
  'constructor',
  'ünïcödé',
  '"quoted\\"',
  '日本語 の id',
  'e\u0301',
  '💥'.repeat(128),
  'x'.repeat(128),
  '0123456789abcdef'.repeat(4),
  '%2e%2e',
  '..a',
  "'; DROP TABLE--",
];

describe('an id with strange characters', () => {
  test.each(strange)('%s goes through a whole life', async (id) => {
    const { inventory } = world;
    const accepted = await intend(inventory, id, { owner: id });
    expect(accepted.job.data).toMatchObject({ instanceId: id });
    expect(accepted.job.jobId).toMatch(/^launch-[0-9a-f]{20}-\d+-1$/);
    expect(await inventory.stalePending(0)).toEqual([accepted.job]);
    const { lease, record } = await begin(inventory, id, accepted);
    expect(record).toMatchObject({ instanceId: id, owner: id });
    await inventory.write(lease, { state: 'ready', events: [{ type: 'ready' }], wake: [`owner:${id}`], release: true });
    expect((await inventory.list({ limit: 5, owner: id })).items.map((item) => item.instanceId)).toEqual([id]);
    expect((await inventory.events(id, 0, 10)).map((event) => event.instanceId)).toEqual([id, id]);
    const removal = await remove(inventory, id);
    const teardown = await begin(inventory, id, removal, { verb: 'teardown' });
    expect(await inventory.finishRemoval(teardown.lease, { generation: removal.generation, suspended: false })).toBe('gone');
    expect(await inventory.tombstone(id)).toMatchObject({ instanceId: id, owner: id });
  });

  test('is never confused with another (C91)', async () => {
    const { inventory } = world;
    for (const id of strange) await intend(inventory, id, { owner: id });
    expect(new Set(strange.map((id) => inventory.hashOf(id))).size).toBe(strange.length);
    const items = (await inventory.list({ limit: 100 })).items;
    expect(items.map((item) => item.instanceId).sort()).toEqual([...strange].sort());
    for (const id of strange) {
      expect((await inventory.read(id))?.instanceId).toBe(id);
      expect((await inventory.list({ limit: 100, owner: id })).items.map((item) => item.instanceId)).toEqual([id]);
    }
  });
});

test('two installations on one Redis do not see each other', async () => {
  const { inventory } = world;
  const second = await world.open({ installation: 'other', holder: 'worker-2' });
  await ready(inventory, 'a');
  expect(await second.read('a')).toBeUndefined();
  expect((await second.list({ limit: 10 })).items).toEqual([]);
  expect(await second.intendLaunch(launchOf('a', { owner: 'bob', requestHash: 'x' }))).toMatchObject({ kind: 'accepted' });
  expect(await inventory.read('a')).toMatchObject({ owner: 'ann', state: 'ready' });
});

describe('some fields of many records', () => {
  const key = (id: string) => `${tag}:record:${world.inventory.hashOf(id)}`;

  test('are as the whole records have them, in the order asked for, with undefined where there is none', async () => {
    const { inventory } = world;
    const ids = ['é / 1', 'nobody', 'b'];
    for (const id of ['b', 'é / 1']) await ready(inventory, id);
    const fields = ['instanceId', 'state', 'generation', 'fence', 'creates', 'pod', 'lifetime', 'missing'] as const;
    const read = await inventory.readFields(ids.map(inventory.hashOf), fields);
    for (const [at, id] of ids.entries()) {
      const whole = await inventory.read(id);
      if (whole === undefined) expect(read[at]).toBeUndefined();
      else for (const field of fields) expect([id, field, read[at]?.[field]]).toEqual([id, field, whole[field]]);
    }
    expect(await inventory.readFields([], fields)).toEqual([]);
  });

  test('tell which objects are not those of their records', async () => {
    const { inventory } = world;
    const pod = { name: 'p', uid: 'uid-1', node: '', ip: '', createdByGeneration: 1 };
    const workspace = { mode: 'managed_pvc', claimName: 'c', claimUid: 'uid-2', created: true, createdByGeneration: 1 } as const;
    const { lease } = await begin(inventory, 'a', await intend(inventory, 'a'));
    await inventory.write(lease, { set: { pod, workspace } });
    await ready(inventory, 'bare');
    const objects = ['a', 'bare', 'nobody', 'a'].map((id, at) => ({
      hash: inventory.hashOf(id),
      uid: at === 3 ? 'uid-3' : 'uid-1',
      at,
    }));
    const places = async (kind: 'pods' | 'persistentvolumeclaims', uids = objects) =>
      (await inventory.unrecorded(kind, uids)).map(({ at }) => at);
    expect(await places('pods')).toEqual([1, 2, 3]);
    expect(await places('persistentvolumeclaims')).toEqual([0, 1, 2, 3]);
    expect(await places('persistentvolumeclaims', [{ ...objects[0], uid: 'uid-2' } as (typeof objects)[number]])).toEqual([]);
    expect(await places('pods', [])).toEqual([]);
    await world.raw.set(key('nobody'), 'no hash');
    expect(await refusal(inventory.unrecorded('pods', objects))).toBe('invariant_broken');
  });

  test('are listed page by page like whole records', async () => {
    const { inventory } = world;
    for (const id of ['a', 'b', 'c']) await ready(inventory, id, { owner: id === 'b' ? 'bob' : 'ann' });
    await intend(inventory, 'd');
    const first = await inventory.listFields(['instanceId'], { states: ['ready'], limit: 2 });
    const rest = await inventory.listFields(['instanceId'], { states: ['ready'], limit: 2, cursor: first.nextCursor as string });
    expect([...first.items, ...rest.items].map((item) => item.instanceId).sort()).toEqual(['a', 'b', 'c']);
    expect(rest.nextCursor).toBeNull();
  });

  test.each([
    ['a newer schema', { schema: '2' }, 'record_newer'],
    ['a state of a newer Windlass', { state: 'hibernating' }, 'record_newer'],
    ['a field that is no JSON', { pod: '{' }, 'invariant_broken'],
  ])('with %s in one record are refused, all of them', async (_name, written, code) => {
    await ready(world.inventory, 'a');
    await ready(world.inventory, 'b');
    await world.raw.hset(key('b'), written);
    expect(await refusal(world.inventory.readFields(['a', 'b'].map(world.inventory.hashOf), ['pod']))).toBe(code);
  });

  test('that a record lacks, or a key that is none, are refused', async () => {
    await ready(world.inventory, 'a');
    await world.raw.hdel(key('a'), 'creates');
    expect(await refusal(world.inventory.readFields([world.inventory.hashOf('a')], ['creates']))).toBe('invariant_broken');
    await world.raw.set(key('b'), 'no hash');
    expect(await refusal(world.inventory.readFields([world.inventory.hashOf('b')], ['pod']))).toBe('invariant_broken');
  });
});
