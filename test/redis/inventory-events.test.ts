import { describe, expect, test } from 'vitest';
import { begin, intend, tag, until, useWorld } from './inventory-support.ts';

const world = useWorld();
/** Than a test may take: a wait of that time that ends was ended by something else. */
const longer = 120_000;

async function chatter(id: string, count: number) {
  const inventory = await world.open({
    retention: { failedSeconds: 1, tombstoneSeconds: 3600, finishedSeconds: 1, eventsPerInstance: 10 },
  });
  const { lease } = await begin(inventory, id, await intend(inventory, id));
  for (let at = 0; at < count; at++) await inventory.write(lease, { events: [{ type: 'stage.progress', at2: at }] });
  return inventory;
}

describe('events', () => {
  test('are numbered without a hole and kept up to the limit, with a gap that says what is missing', async () => {
    const inventory = await chatter('a', 15);
    const events = await inventory.events('a', 3, 100);
    expect(events[0]).toMatchObject({ type: 'gap', from: 4, to: 6, seq: 6, instanceId: 'a' });
    expect(events.slice(1).map((event) => event.seq)).toEqual([7, 8, 9, 10, 11, 12, 13, 14, 15, 16]);
    expect((await inventory.events('a', 6, 100))[0]).toMatchObject({ seq: 7, type: 'stage.progress' });
    expect(await inventory.events('a', 16, 100)).toEqual([]);
  });

  test('can be read page by page', async () => {
    const inventory = await chatter('a', 5);
    const seen: number[] = [];
    for (let after = 0; ; ) {
      const page = await inventory.events('a', after, 2);
      if (page.length === 0) break;
      seen.push(...page.map((event) => event.seq));
      after = seen.at(-1) as number;
    }
    expect(seen).toEqual([1, 2, 3, 4, 5, 6]);
  });

  test('start over for a reader who remembers more than Redis does', async () => {
    const inventory = await chatter('a', 2);
    expect((await inventory.events('a', 500, 10)).map((event) => event.seq)).toEqual([1, 2, 3]);
  });

  test('cannot overwrite what the script gives them', async () => {
    const { inventory } = world;
    const accepted = await intend(inventory, 'a');
    const { lease } = await begin(inventory, 'a', accepted);
    await inventory.write(lease, { events: [{ type: 'ready', seq: 99, instanceId: 'x', generation: 1, at: 'never' }] });
    const event = (await inventory.events('a', 1, 10))[0];
    expect(event).toMatchObject({ seq: 2, instanceId: 'a', generation: accepted.generation, type: 'ready' });
    expect(Math.abs(Date.parse(event?.at ?? '') - Date.now())).toBeLessThan(60_000);
  });
});

describe('waiting for an event', () => {
  test('ends soon after it was written by another process', async () => {
    const { inventory } = world;
    const other = await world.open({ holder: 'worker-2' });
    const { lease } = await begin(inventory, 'a', await intend(inventory, 'a'));
    let woken = false;
    const waiting = other.waitForEvent('a', 1, longer).then(() => {
      woken = true;
    });
    await until(async () => Number((await world.raw.pubsub('NUMSUB', `${tag}:event`))[1]) > 0);
    expect(woken).toBe(false);
    await inventory.write(lease, { events: [{ type: 'ready' }] });
    await waiting;
    expect(woken).toBe(true);
  });

  test('ends at once when the event is there already, at its time when none comes, and when aborted', async () => {
    const { inventory } = world;
    await intend(inventory, 'a');
    await inventory.waitForEvent('a', 0, longer);
    await inventory.waitForEvent('a', 1, 150);
    expect(await inventory.events('a', 1, 10)).toEqual([]);
    await inventory.waitForEvent('a', 1, longer, AbortSignal.abort());
    const abort = new AbortController();
    let ended = false;
    const waiting = inventory.waitForEvent('a', 1, longer, abort.signal).then(() => {
      ended = true;
    });
    await until(async () => Number((await world.raw.pubsub('NUMSUB', `${tag}:event`))[1]) > 0);
    expect(ended).toBe(false);
    abort.abort();
    await waiting;
  });
});
