import type { Cluster, Redis } from 'ioredis';
import { monotonicMs } from '../clock.ts';
import type { Hub } from './hub.ts';
import type { Keys } from './keys.ts';
import type { Inventory } from './port.ts';
import { asking } from './redis-error.ts';
import type { InstanceEvent, NewEvent } from './types.ts';

/** How often a waiting reader looks although no message came: pub/sub may lose one. */
const lookMs = 2000;

/** Events as the scripts append them. */
export function encodeEvents(events: readonly NewEvent[] = []): { t: string; d: string }[] {
  return events.map(({ type, ...rest }) => ({ t: type, d: JSON.stringify(rest) }));
}

/** The numbered history of an instance. It outlives the record until the tombstone ends. */
export function createEvents(deps: {
  redis: Redis | Cluster;
  keys: Keys;
  hub: Hub;
  hashOf: (instanceId: string) => string;
}): Pick<Inventory, 'events' | 'waitForEvent'> {
  const { redis, keys, hub, hashOf } = deps;
  const lastSeq = async (hash: string) => {
    const [last] = await asking(() => redis.xrevrange(keys.events(hash), '+', '-', 'COUNT', 1));
    return last === undefined ? 0 : seqOf(last[0]);
  };
  return {
    async events(instanceId, after, limit) {
      const stream = keys.events(hashOf(instanceId));
      const from = (seq: number) => asking(() => redis.xrange(stream, `${seq + 1}-0`, '+', 'COUNT', limit));
      let start = after;
      let entries = await from(after);
      if (entries.length === 0 && after > (await lastSeq(hashOf(instanceId)))) {
        // Redis forgot and numbers anew: a reader who remembers a higher number would never hear anything again.
        start = 0;
        entries = await from(0);
      }
      const found = entries.map(([id, fields]) => decodeEvent(instanceId, seqOf(id), fields));
      return withGap(found, start).slice(0, limit);
    },
    async waitForEvent(instanceId, after, timeoutMs, signal) {
      const hash = hashOf(instanceId);
      const until = monotonicMs() + timeoutMs;
      const bell = createBell(signal);
      const unsubscribe = await hub.subscribe(keys.channels.event, (named) => named === hash && bell.ring());
      try {
        for (;;) {
          const left = until - monotonicMs();
          if (signal?.aborted || left <= 0 || (await lastSeq(hash)) > after) return;
          await bell.wait(Math.min(lookMs, left));
        }
      } finally {
        unsubscribe();
        bell.close();
      }
    },
  };
}

const seqOf = (id: string) => Number(id.slice(0, id.indexOf('-')));

function decodeEvent(instanceId: string, seq: number, fields: readonly string[]): InstanceEvent {
  const value = (name: string) => fields[fields.indexOf(name) + 1] as string;
  return {
    ...(JSON.parse(value('d')) as object),
    seq,
    instanceId,
    generation: Number(value('g')),
    type: value('t'),
    at: new Date(Number(value('at'))).toISOString(),
  };
}

/** Says so when events between `after` and the oldest kept one are gone, so that a reader knows what it missed. */
function withGap(events: readonly InstanceEvent[], after: number): InstanceEvent[] {
  const first = events[0];
  if (first === undefined || first.seq === after + 1) return [...events];
  const { instanceId, generation, at } = first;
  return [{ seq: first.seq - 1, instanceId, generation, type: 'gap', at, from: after + 1, to: first.seq - 1 }, ...events];
}

/** A wait that a message, a timeout or an abort ends. A ring while nobody waits is not lost. */
function createBell(signal: AbortSignal | undefined) {
  let rung = false;
  let wake = () => {};
  const ring = () => {
    rung = true;
    wake();
  };
  signal?.addEventListener('abort', ring, { once: true });
  return {
    ring,
    async wait(ms: number) {
      let timer: NodeJS.Timeout | undefined;
      await new Promise<void>((resolve) => {
        wake = resolve;
        timer = setTimeout(resolve, ms);
        if (rung) resolve();
      });
      clearTimeout(timer);
      rung = false;
    },
    close: () => signal?.removeEventListener('abort', ring),
  };
}
