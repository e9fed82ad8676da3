import type { Cluster, Redis } from 'ioredis';
import { within } from '../clock.ts';
import type { Config } from '../config/schema.ts';
import { asWindlassError, WindlassError } from '../errors.ts';
import { instanceHash } from '../names.ts';
import { connected, createRedis, type Env } from './connection.ts';
import { createEvents } from './events.ts';
import { createHub } from './hub.ts';
import { createIntents } from './intents.ts';
import { createKeys, inventoryTag } from './keys.ts';
import { createLeaseKeeper, type InventoryLog } from './lease.ts';
import { createListing } from './listing.ts';
import type { Inventory } from './port.ts';
import { asking } from './redis-error.ts';
import { redisFacts } from './redis-facts.ts';
import { createScripts } from './scripts.ts';
import { createStore } from './store.ts';
import { createWaiting } from './waiting.ts';

export interface InventoryOptions {
  readonly redis: Config['redis'];
  readonly installation: string;
  readonly retention: Config['retention'];
  readonly env: Env;
  /** Where relative TLS file paths start. */
  readonly dir: string;
  /** Names this process in leases; no two live processes may share one. */
  readonly holder: string;
  readonly log: InventoryLog;
}

/** How long a request waits for the replicas that the configuration asks for. */
const replicaMs = 1000;

/** The inventory of one installation. Throws `redis_unavailable` within about three seconds when Redis is away. */
export async function createInventory(options: InventoryOptions): Promise<Inventory> {
  const open = (role: 'commands' | 'subscriber') => createRedis(options.redis, options.env, options.dir, role);
  const redis = await connected(open('commands'));
  const keys = createKeys(inventoryTag(options.redis.prefix, options.installation));
  const hashOf = (instanceId: string) => instanceHash(options.installation, instanceId);
  const run = createScripts(redis, keys.tag, {
    eventsKept: options.retention.eventsPerInstance,
    tombstoneMs: options.retention.tombstoneSeconds * 1000,
  });
  const hub = createHub(() => open('subscriber'), options.log);
  const keeper = createLeaseKeeper({ run, holder: options.holder, log: options.log, listen: () => listen() });
  const listen = listenOnce(options.log, () => hub.subscribe(keys.channels.intent, (message) => keeper.onIntent(message)));
  const now = async () => {
    const [seconds, micros] = await asking(() => redis.time());
    return Number(seconds) * 1000 + Math.floor(Number(micros) / 1000);
  };
  return {
    hashOf,
    ...createIntents({ run, hashOf, confirm: () => confirm(redis, keys.tag, options.redis.waitReplicas) }),
    ...createStore({ run, keeper, holder: options.holder, hashOf }),
    ...createWaiting({ redis, run, keys, hub, now }),
    ...createListing(redis, keys, hashOf),
    ...createEvents({ redis, keys, hub, hashOf }),
    now,
    facts: () => redisFacts(redis),
    async close() {
      keeper.close();
      hub.close();
      await hangUp(redis, options.log);
    },
  };
}

/** Subscribes at the first call; a failed try is repeated at the next, since renewals tell the same a second later. */
function listenOnce(log: InventoryLog, subscribe: () => Promise<unknown>): () => void {
  let listening = false;
  return () => {
    if (listening) return;
    listening = true;
    subscribe().catch((error: unknown) => {
      listening = false;
      log.warn({ code: asWindlassError(error).code }, 'not subscribed to intents');
    });
  };
}

/** Lets commands under way end, but does not wait for a Redis that is gone. */
async function hangUp(redis: Redis | Cluster, log: InventoryLog): Promise<void> {
  try {
    await within(redis.quit(), 1000);
  } catch (error) {
    log.debug({ code: asWindlassError(error).code }, 'redis was gone before it was closed');
  } finally {
    redis.disconnect();
  }
}

/**
 * Holds an answer back until enough replicas have what was written (C74). WAIT counts from this connection's last
 * write, so it travels in one pipeline with a command that a cluster routes to the inventory's node.
 */
async function confirm(redis: Redis | Cluster, tag: string, replicas: number): Promise<void> {
  if (replicas === 0) return;
  const answers = await asking(() => redis.pipeline().exists(tag).wait(replicas, replicaMs).exec());
  const reached = Number(answers?.[1]?.[1] ?? 0);
  if (reached >= replicas) return;
  throw new WindlassError(
    'redis_unavailable',
    `Only ${reached} of ${replicas} Redis replicas confirmed the request in time; it may still be done.`,
  );
}
