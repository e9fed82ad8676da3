import type { Cluster, Redis } from 'ioredis';
import { effect } from '../effects.ts';
import type { Hub } from './hub.ts';
import { jobOf } from './intents.ts';
import type { Keys } from './keys.ts';
import type { Inventory, JobRef, WaitTicket } from './port.ts';
import { asking } from './redis-error.ts';
import type { RunScript } from './scripts.ts';

/** Pending entries and claims looked at in one go; the next look finds the rest. */
const batch = 500;

type Waiting = Pick<
  Inventory,
  | 'clearPending'
  | 'stalePending'
  | 'registerWait'
  | 'staleClaims'
  | 'clearClaim'
  | 'wakeNumbers'
  | 'claimWaiters'
  | 'wake'
  | 'onWake'
>;

/** How a waiter is written down. Queue names have no `|`, job ids may. */
export const memberOf = (job: JobRef): string => `${job.queue}|${job.jobId}`;

function jobRefOf(member: string): JobRef {
  const at = member.indexOf('|');
  return { queue: member.slice(0, at) as JobRef['queue'], jobId: member.slice(at + 1) };
}

export function ticketOf(numbers: unknown): WaitTicket {
  const entries = Object.entries((numbers ?? {}) as Record<string, string>);
  return { numbers: Object.fromEntries(entries.map(([key, number]) => [key, Number(number)])) };
}

/** Jobs that sleep until something happens, and jobs that may not have reached the queue. */
export function createWaiting(deps: {
  redis: Redis | Cluster;
  run: RunScript;
  keys: Keys;
  hub: Hub;
  now: () => Promise<number>;
}): Waiting {
  const { redis, run, keys, hub } = deps;
  const olderThan = async (set: string, ageMs: number): Promise<[member: string, at: string][]> => {
    const until = (await deps.now()) - ageMs;
    const found = await asking(() => redis.zrangebyscore(set, '-inf', until, 'WITHSCORES', 'LIMIT', 0, batch));
    return found.flatMap((member, at) => (at % 2 === 0 ? [[member, found[at + 1] ?? '']] : []));
  };
  return {
    async clearPending(jobId) {
      const entry = redis.pipeline().zrem(keys.pending, jobId).hdel(keys.pendingJobs, jobId);
      await effect('redis.clear-pending', undefined, () => asking(() => entry.exec()));
    },
    async stalePending(ageMs) {
      const ids = (await olderThan(keys.pending, ageMs)).map(([id]) => id);
      if (ids.length === 0) return [];
      const entries = await asking(() => redis.hmget(keys.pendingJobs, ...ids));
      return ids.flatMap((id, at) => (entries[at] ? [jobOf(id, JSON.parse(entries[at]))] : []));
    },
    async registerWait(job, names) {
      const [answer] = await run('register-wait', undefined, { member: memberOf(job), keys: names });
      return ticketOf(answer.numbers);
    },
    async staleClaims(ageMs) {
      return (await olderThan(keys.claimed, ageMs)).map(([member, claimedAt]) => ({ ...jobRefOf(member), claimedAt }));
    },
    async clearClaim({ claimedAt, ...job }) {
      await run('clear-claim', undefined, { member: memberOf(job), at: claimedAt });
    },
    async wakeNumbers(names) {
      if (names.length === 0) return {};
      const found = await asking(() => redis.mget(names.map(keys.wake)));
      return Object.fromEntries(names.map((name, at) => [name, Number(found[at] ?? 0)]));
    },
    async claimWaiters(key, count) {
      const [answer] = await run('claim-waiters', undefined, { key, count: String(count) });
      // Lua writes an empty list as {}.
      return Array.isArray(answer.claimed) ? (answer.claimed as string[]).map(jobRefOf) : [];
    },
    async wake(names) {
      if (names.length > 0) await run('wake', undefined, { keys: names });
    },
    onWake: (listener) => hub.subscribe(keys.channels.wake, listener),
  };
}
