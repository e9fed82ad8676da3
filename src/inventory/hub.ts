import type { Cluster, Redis } from 'ioredis';
import { asWindlassError } from '../errors.ts';
import { connected } from './connection.ts';
import type { InventoryLog } from './lease.ts';
import { asking } from './redis-error.ts';

type Listener = (message: string) => void;

/** Pub/sub over one connection of its own, opened at the first subscription. Messages are only ever hints. */
export interface Hub {
  subscribe(channel: string, listener: Listener): Promise<() => void>;
  close(): void;
}

export function createHub(open: () => Redis | Cluster, log: InventoryLog): Hub {
  const listeners = new Map<string, Set<Listener>>();
  let connection: Promise<Redis | Cluster> | undefined;
  let raw: Redis | Cluster | undefined;

  const connect = () => {
    raw = open();
    raw.on('message', (channel: string, message: string) => {
      for (const listener of listeners.get(channel) ?? []) listener(message);
    });
    const redis = raw;
    redis.on('ready', () => {
      // By ourselves, since the client's own way leaves a failure of it unhandled, which would end the process.
      const channels = [...listeners.keys()];
      if (channels.length > 0) asking(() => redis.subscribe(...channels)).catch(missed);
    });
    return connected(redis);
  };
  const missed = (error: unknown) => log.warn({ code: asWindlassError(error).code }, 'not subscribed again after a reconnect');

  return {
    async subscribe(channel, listener) {
      // A failed attempt is forgotten, so that the next subscriber tries again.
      connection ??= connect().catch((error: unknown) => {
        connection = undefined;
        throw error;
      });
      const redis = await connection;
      const known = listeners.get(channel) ?? new Set<Listener>();
      listeners.set(channel, known.add(listener));
      // Repeated subscribes are no-ops in Redis; each caller waits until messages really arrive.
      await asking(() => redis.subscribe(channel));
      return () => known.delete(listener);
    },
    close() {
      listeners.clear();
      raw?.disconnect();
    },
  };
}
