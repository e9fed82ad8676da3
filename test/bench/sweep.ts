import { monitorEventLoopDelay } from 'node:perf_hooks';
import { Redis } from 'ioredis';
import { inventoryTag } from '../../src/inventory/keys.ts';
import { createShelf } from '../../src/inventory/shelf.ts';
import type { JobContext } from '../../src/jobs/context.ts';
import { orphans } from '../../src/jobs/sweeps/orphans.ts';
import { runPlan } from '../../src/jobs/sweeps/pass.ts';
import { keys, ownedAnnotations, ownedLabels } from '../../src/kubernetes/ownership.ts';
import { claimName, instanceHash } from '../../src/names.ts';
import { startCluster } from '../support/cluster.ts';
import { createWorld } from '../support/world.ts';

/**
 * One dry pass of the orphan sweep over N claims that all have records, as a ratio to reading and discarding the same
 * pages of the same cluster in the same run; its memory and its longest hold of the event loop. One JSON document.
 */
const count = Number(process.argv[2] ?? 10_000);
const lanes = 32;

const embedded = await startCluster();
const world = await createWorld({
  kubeconfig: embedded.kubeconfig,
  namespace: 'default',
  image: 'node:24',
  storageClass: 'standard',
});
const { operator, cluster, loaded } = world;
const raw = new Redis(world.redis.url);
try {
  let next = 0;
  const lane = async () => {
    while (next < count) await seed(`bench ${next++}`);
  };
  await Promise.all(Array.from({ length: lanes }, lane));
  const shelf = createShelf(raw, inventoryTag(loaded.config.redis.prefix, loaded.config.installation));
  const job = { queue: 'sweep', jobId: 'bench' } as const;
  const silent = () => undefined;
  const log = { debug: silent, info: silent, warn: silent, error: silent, fatal: silent };
  const context = {
    ...operator,
    config: loaded.config,
    shelf,
    log,
    job,
    signal: new AbortController().signal,
  } as unknown as JobContext;
  const floors: number[] = [];
  const passes: number[] = [];
  let peak = 0;
  const sampler = setInterval(() => {
    peak = Math.max(peak, process.memoryUsage().rss);
  }, 20);
  const delays = monitorEventLoopDelay({ resolution: 10 });
  let objects = 0;
  for (let round = 0; round < 3; round += 1) {
    floors.push(await timed(discard));
    delays.enable();
    passes.push(
      await timed(async () => {
        const [report] = await runPlan(context, orphans, { dryRun: true, ackMassDelete: false });
        if (report === undefined || report.stopped || report.candidates > 0)
          throw new Error(`unexpected: ${JSON.stringify(report?.stopped)}`);
        objects = report.objects;
      }),
    );
    delays.disable();
  }
  clearInterval(sampler);
  const [floorMs, passMs] = [Math.min(...floors), Math.min(...passes)];
  const figures = { objects, floorMs, passMs, ratio: Math.round((100 * passMs) / floorMs) / 100 };
  const costs = { maxBlockMs: Math.round(delays.max / 1e6), rssMiB: Math.round(peak / 2 ** 20) };
  process.stdout.write(`${JSON.stringify({ schema: 'windlass/v1', bench: 'sweep', ...figures, ...costs })}\n`);
} finally {
  raw.disconnect();
  await world.stop();
  await embedded.close();
}

async function timed(work: () => Promise<void>): Promise<number> {
  const start = performance.now();
  await work();
  return Math.round(performance.now() - start);
}

async function discard(): Promise<void> {
  for (const kind of ['pods', 'persistentvolumeclaims'] as const) {
    for await (const page of cluster.listMetadata(kind, `${keys.installation}=test`)) page.items.at(-1);
  }
}

async function seed(instanceId: string): Promise<void> {
  const hash = instanceHash('test', instanceId);
  const accepted = await operator.inventory.intendLaunch({
    instanceId,
    owner: 'ann',
    payload: { version: 1, instanceId, profile: 'node' },
    requestHash: 'h',
    cluster: 'default',
    profile: 'node',
    app: '',
    sealedEnv: '',
    deadlineSeconds: 600,
    attempts: 3,
    lifetime: {},
    limits: {},
  });
  if (!('generation' in accepted)) throw new Error(`not accepted: ${accepted.kind}`);
  const identity = { installation: 'test', instanceId, hash, owner: 'ann', cluster: 'default', profile: 'node' };
  const marks = { nonce: 'f'.repeat(64), generation: accepted.generation, specHash: 'x' };
  const metadata = {
    name: claimName(hash),
    labels: ownedLabels(identity),
    annotations: ownedAnnotations({ ...identity, ...marks }),
  };
  const spec = { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Mi' } } };
  await cluster.create('persistentvolumeclaims', { metadata, spec });
}
