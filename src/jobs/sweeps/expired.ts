import type { InstanceInfo } from '../../agent/protocol.ts';
import type { InstanceRecord } from '../../inventory/types.ts';
import type { SweepEntry } from '../context.ts';
import { awaitsCommand, commandEnd, commandLookSeconds } from './command-end.ts';
import { lookAgain, lookInside } from './inside.ts';
import { type Found, type Pass, type SweepPlan, serverNow, underLease } from './pass.ts';
import { aboutRecord, recordPages, requestRemoval } from './records.ts';
import { keep, type Verdict } from './verdict.ts';

/** Records looked at in one pass; the longest expired come first. */
const batch = 1000;
/** Instances that are looked into in one pass: each is a connection into a Pod. */
const looksPerPass = 20;

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
    yield* inside(pass, now);
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
/** And of one that may be looked into. */
const lookedInto = [...judged, 'request', 'exitCode'] as const;
type LookedInto = Pick<InstanceRecord, (typeof lookedInto)[number]>;

/** Over only when Redis and the cluster both say so: one clock that jumps must not end every instance at once. */
async function earliestNow(pass: Pass): Promise<number> {
  return Math.min(await pass.inventory.now(), serverNow(pass.cluster));
}

/** Rate-limited: the others have their turn in the next passes. Idleness can only shorten a life. */
async function* inside(pass: Pass, now: number): AsyncGenerator<Found> {
  let asked = 0;
  for await (const page of recordPages(pass, ['ready'], lookedInto)) {
    for (const record of page) {
      if (asked >= looksPerPass) return;
      const idle = mayBeIdle(record, now);
      if (!idle && !awaitsCommand(record)) continue;
      const info = await lookInside(pass, record, everySeconds(record, idle));
      if (info === 'not asked') continue;
      asked += 1;
      if (idle) yield await find(pass, record, now, activeAt(record, info));
      const ended = info === undefined || !awaitsCommand(record) ? undefined : commandEnd(pass, record, info, now);
      if (ended !== undefined) yield ended;
    }
  }
}

const idleSecondsOf = (record: Judged): number => Number(record.lifetime?.idleSeconds ?? 0);

function mayBeIdle(record: Judged, now: number): boolean {
  const seconds = idleSecondsOf(record);
  return seconds > 0 && now - record.readyAt >= seconds * 1000;
}

/** A quarter of the idle time is exact enough. */
function everySeconds(record: LookedInto, idle: boolean): number {
  const forIdle = idle ? Math.max(60, Math.round(idleSecondsOf(record) / 4)) : Number.POSITIVE_INFINITY;
  return Math.min(forIdle, awaitsCommand(record) ? commandLookSeconds : Number.POSITIVE_INFINITY);
}

/** Since when nothing happened in it (its own clock, which is its node's); undefined = not known: that counts as active (I20). */
function activeAt(record: Judged, info: InstanceInfo | undefined): number | undefined {
  if (info === undefined) return undefined;
  return info.last_activity_at === undefined ? record.readyAt : Math.max(record.readyAt, Date.parse(info.last_activity_at));
}

async function find(pass: Pass, record: Judged, now: number, idleFrom: number | undefined): Promise<Found> {
  const facts = { record, now, idleFrom, ...policyOf(pass) };
  const first = judgeExpired({ ...facts, warned: false });
  // Whether its user was told is asked only where it matters: failed records are many.
  const warned = first.verdict === 'warn' && (await pass.shelf.get<number>(toldName(record))) === record.expiresAt;
  const entry = { ...aboutRecord(record, now), ...(warned ? judgeExpired({ ...facts, warned }) : first) };
  return { key: record.hash, entry, act: () => act(pass, record, entry) };
}

/** Holds the end that the user was told of: a life that was extended is announced again. */
const toldName = (record: Pick<InstanceRecord, 'hash'>): string => `told-of-end:${record.hash}`;
const toldTtlSeconds = 2 * 86_400;

const policyOf = (pass: Pass) => ({
  warnSeconds: pass.settings.graceSeconds,
  failedSeconds: pass.config.retention.failedSeconds,
});

function act(pass: Pass, seen: Judged, entry: SweepEntry): Promise<SweepEntry> {
  return underLease(pass, seen.hash, entry, async (lease) => {
    const record = await pass.inventory.readByHash(seen.hash);
    if (record === undefined) return { ...entry, action: 'gone' };
    const idleFrom = entry.rule === 'idle_too_long' ? activeAt(record, await lookAgain(pass, record)) : undefined;
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
