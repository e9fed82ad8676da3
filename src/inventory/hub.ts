import type { Cluster, Redis } from 'ioredis';
import { connected } from './connection.ts';
import { reading } from './redis-error.ts';

type Listener = (message: string) => void;

/** Pub/sub over one connection of its own, opened at the first subscription. Messages are only ever hints. */
export interface Hub {
  subscribe(channel: string, listener: Listener): Promise<() => void>;
  close(): void;
}

export function createHub(open: () => Redis | Cluster): Hub {
  const listeners = new Map<string, Set<Listener>>();
  let connection: Promise<Redis | Cluster> | undefined;
  let raw: Redis | Cluster | undefined;

  const connect = () => {
    raw = open();
    raw.on('message', (channel: string, message: string) => {
      for (const listener of listeners.get(channel) ?? []) listener(message);
    });
    return connected(raw);
  };

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
      await reading(() => redis.subscribe(channel));
      return () => known.delete(listener);
    },
    close() {
      listeners.clear();
      raw?.disconnect();
    },
  };
}
