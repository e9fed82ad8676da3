import type { InstanceRecord } from '../../inventory/types.ts';
import type { SweepEntry } from '../context.ts';
import { idleSince } from './idle.ts';
import { type Found, type Pass, type SweepPlan, serverNow, underLease } from './pass.ts';
import { aboutRecord, recordPages, requestRemoval } from './records.ts';
import { keep, type Verdict } from './verdict.ts';

/** Records looked at in one pass; the longest expired come first. */
const batch = 1000;
/** Idle instances that are asked in one pass: each is a connection into a Pod. */
const idlePerPass = 20;

/**
 * Records past their time: a lifetime, an idle time, the time that a suspended or a failed one is kept. No breaker: an
 * expiry is no inference, and a crowd that started together ends together; the cap per pass spreads it.
 */
export const expired: SweepPlan = {
  kind: 'expired',
  breaker: false,
  async *look(pass) {
    const now = await earliestNow(pass);
    const soon = now + pass.settings.graceSeconds * 1000;
    const due = await pass.inventory.expired(soon, batch);
    const records = await pass.inventory.readFields(due, [...judged, 'cluster']);
    const mine = records.filter((record) => record !== undefined).filter((record) => record.cluster === pass.cluster.name);
    pass.looked(mine.length);
    yield* await Promise.all(mine.map((record) => find(pass, record, now, undefined)));
    for await (const page of recordPages(pass, ['failed'], judged))
      yield* await Promise.all(page.map((record) => find(pass, record, now, undefined)));
    yield* idle(pass, now);
  },
};

/** The fields of a record that the look needs; what is done is decided on the whole record. */
export const judged = [
  'hash',
  'instanceId',
  'state',
  'generation',
  'pod',
  'agent',
  'workspace',
  'lifetime',
  'readyAt',
  'updatedAt',
  'expiresAt',
] as const;
type Judged = Pick<InstanceRecord, (typeof judged)[number]>;

/** Over only when Redis and the cluster both say so: one clock that jumps must not end every instance at once. */
async function earliestNow(pass: Pass): Promise<number> {
  return Math.min(await pass.inventory.now(), serverNow(pass.cluster));
}

/** Rate-limited: the others have their turn in the next passes. Idleness can only shorten a life. */
async function* idle(pass: Pass, now: number): AsyncGenerator<Found> {
  let asked = 0;
  for await (const page of recordPages(pass, ['ready'], judged)) {
    for (const record of page) {
      if (asked >= idlePerPass) return;
      const seconds = Number(record.lifetime?.idleSeconds ?? 0);
      if (!(seconds > 0) || now - record.readyAt < seconds * 1000) continue;
      const since = await idleSince(pass, record, seconds);
      if (since === 'not asked') continue;
      asked += 1;
      yield await find(pass, record, now, since);
    }
  }
}

async function find(pass: Pass, record: Judged, now: number, idleFrom: number | undefined): Promise<Found> {
  const facts = { record, now, idleFrom, ...policyOf(pass) };
  const first = judgeExpired({ ...facts, warned: false });
  // Whether its user was told is asked only where it matters: failed records are many.
  const warned = first.verdict === 'warn' && (await pass.shelf.get<number>(toldName(record))) === record.expiresAt;
  const entry = { ...aboutRecord(record, now), ...(warned ? judgeExpired({ ...facts, warned }) : first) };
  return { key: record.hash, entry, act: () => act(pass, record, entry, idleFrom) };
}

/** Holds the end that the user was told of: a life that was extended is announced again. */
const toldName = (record: Pick<InstanceRecord, 'hash'>): string => `told-of-end:${record.hash}`;
const toldTtlSeconds = 2 * 86_400;

const policyOf = (pass: Pass) => ({
  warnSeconds: pass.settings.graceSeconds,
  failedSeconds: pass.config.retention.failedSeconds,
});

function act(pass: Pass, seen: Judged, entry: SweepEntry, idleFrom: number | undefined): Promise<SweepEntry> {
  return underLease(pass, seen.hash, entry, async (lease) => {
    const record = await pass.inventory.readByHash(seen.hash);
    if (record === undefined) return { ...entry, action: 'gone' };
    const again = judgeExpired({ record, now: await earliestNow(pass), idleFrom, warned: false, ...policyOf(pass) });
    if (again.verdict !== entry.verdict || record.generation !== seen.generation)
      return { ...entry, ...again, action: 'changed' };
    if (again.verdict !== 'warn') {
      const keepWorkspace = again.verdict === 'suspend';
      return requestRemoval(
        pass,
        record,
        { ...entry, ...again },
        { keepWorkspace, reason: again.rule.replaceAll('_', ' '), event: 'expired' },
      );
    }
    const atTheEnd = record.state === 'ready' || record.state === 'lost' ? endOf(record, 'onExpire') : 'teardown';
    await pass.inventory.write(lease, {
      events: [{ type: 'expiring', expiresAt: new Date(record.expiresAt).toISOString(), atTheEnd }],
    });
    await pass.shelf.put(toldName(record), record.expiresAt, toldTtlSeconds);
    return { ...entry, ...again, action: 'done' };
  });
}

export interface ExpiryFacts {
  readonly record: Judged;
  /** Redis ms. */
  readonly now: number;
  /** Since when nothing happened in it; undefined = not asked, or not known: that counts as active (I20). */
  readonly idleFrom: number | undefined;
  /** Its user was told of this very end already. */
  readonly warned: boolean;
  readonly warnSeconds: number;
  readonly failedSeconds: number;
}

export function judgeExpired({ record, now, idleFrom, warned, warnSeconds, failedSeconds }: ExpiryFacts): Verdict {
  const { state, expiresAt, lifetime } = record;
  if (state === 'failed') {
    const over = now - record.updatedAt >= failedSeconds * 1000;
    return over ? { rule: 'failed_kept_long_enough', verdict: 'teardown', evidence: { failedSeconds } } : keep('failed_kept');
  }
  if (state !== 'ready' && state !== 'lost' && state !== 'suspended') return keep('in_other_hands', { state });
  const evidence = { state, expiresAt: new Date(expiresAt).toISOString() };
  if (expiresAt > 0 && now >= expiresAt) {
    if (state === 'suspended') return { rule: 'suspended_too_long', verdict: 'teardown', evidence };
    return { rule: 'lifetime_over', verdict: endOf(record, 'onExpire'), evidence };
  }
  const idleSeconds = Number(lifetime?.idleSeconds ?? 0);
  if (state === 'ready' && idleSeconds > 0 && idleFrom !== undefined && now - idleFrom >= idleSeconds * 1000) {
    const found = { ...evidence, idleSeconds, idleFrom: new Date(idleFrom).toISOString() };
    return { rule: 'idle_too_long', verdict: endOf(record, 'onIdle'), evidence: found };
  }
  if (expiresAt > 0 && now >= expiresAt - warnSeconds * 1000) {
    return warned ? keep('user_was_told', evidence) : { rule: 'ends_soon', verdict: 'warn', evidence };
  }
  return keep('in_time');
}

/** What was agreed; without a claim there is nothing to suspend to. */
function endOf(record: Judged, when: 'onExpire' | 'onIdle'): 'suspend' | 'teardown' {
  const wanted = record.lifetime?.[when] ?? 'teardown';
  return wanted === 'suspend' && (record.workspace?.claimUid ?? '') !== '' ? 'suspend' : 'teardown';
}
