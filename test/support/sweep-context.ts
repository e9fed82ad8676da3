import { Redis } from 'ioredis';
import { inventoryTag } from '../../src/inventory/keys.ts';
import { createShelf } from '../../src/inventory/shelf.ts';
import type { JobContext } from '../../src/jobs/context.ts';
import type { Clusters } from '../../src/kubernetes/port.ts';
import type { World } from './world.ts';

/** What a pass needs, on clusters that a test may look into or change the clock of; no queue and no worker. */
export function sweepContext(world: World, clusters: Clusters): { readonly context: JobContext; close(): void } {
  const { config } = world.loaded;
  const { inventory, keyring } = world.operator;
  const redis = new Redis(world.redis.url);
  const silent = () => undefined;
  const context = {
    config,
    inventory,
    keyring,
    clusters,
    shelf: createShelf(redis, inventoryTag(config.redis.prefix, config.installation)),
    log: { debug: silent, info: silent, warn: silent, error: silent, fatal: silent },
    jobState: async () => 'missing',
    sweepDone: silent,
    job: { queue: 'sweep', jobId: 'by-hand' },
    signal: new AbortController().signal,
  } as unknown as JobContext;
  return { context, close: () => redis.disconnect() };
}
