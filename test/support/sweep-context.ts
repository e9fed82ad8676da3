import { Redis } from 'ioredis';
import { inventoryTag } from '../../src/inventory/keys.ts';
import { createShelf } from '../../src/inventory/shelf.ts';
import type { JobContext, SweepReport } from '../../src/jobs/context.ts';
import { runPlan, type SweepPlan } from '../../src/jobs/sweeps/pass.ts';
import type { Cluster, Clusters } from '../../src/kubernetes/port.ts';
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

/** One pass by hand on the world's cluster, or on a view of it: what the view adds names the moment of an interleaving. */
export async function passOn(world: World, plan: SweepPlan, view: Cluster = world.cluster): Promise<SweepReport> {
  const clusters = { names: () => [view.name], get: () => view, close: async () => undefined };
  const { context, close } = sweepContext(world, clusters);
  try {
    return (await runPlan(context, plan, { dryRun: false, ackMassDelete: false }))[0] as SweepReport;
  } finally {
    close();
  }
}
