import { sleep } from '../../../src/clock.ts';
import { asWindlassError } from '../../../src/errors.ts';
import type { InstanceRecord } from '../../../src/inventory/types.ts';
import type { World } from '../world.ts';

/** Repeats a call while Redis is away, as every caller may: requests are idempotent. */
export async function persist<T>(call: () => Promise<T>): Promise<T> {
  const until = Date.now() + 120_000;
  for (;;) {
    try {
      return await call();
    } catch (error) {
      if (asWindlassError(error).code !== 'redis_unavailable' || Date.now() > until) throw error;
      await sleep(200);
    }
  }
}

export type Record = InstanceRecord | undefined;

/** The record once `test` holds (undefined = it is gone), or `late` with the record as it is after `seconds`. */
export async function settled(
  world: World,
  id: string,
  test: (record: Record) => boolean,
  seconds: number,
): Promise<{ readonly record: Record; readonly late: boolean }> {
  const { inventory } = world.operator;
  const until = Date.now() + seconds * 1000;
  let seq = 0;
  for (;;) {
    const record = await persist(() => inventory.read(id));
    if (test(record)) return { record, late: false };
    if (Date.now() > until) return { record, late: true };
    seq = (await persist(() => inventory.events(id, seq, 500))).at(-1)?.seq ?? seq;
    await persist(() => inventory.waitForEvent(id, seq, 1000));
  }
}

/** What a request can end in: ready, failed with a code, or absent. */
export function hasEnded(record: Record): boolean {
  if (record === undefined || record.state === 'ready') return true;
  if (record.intent === 'suspended') return record.state === 'suspended';
  const back = record.state === 'failed' || (record.state === 'suspended' && record.attemptsLeft === 0);
  return record.intent === 'present' && back && record.failure !== null;
}
