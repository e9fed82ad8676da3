import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { SweepKind } from '../../src/config/schema.ts';
import type { Inventory } from '../../src/inventory/port.ts';
import type { InstanceRecord, State } from '../../src/inventory/types.ts';
import type { JobContext } from '../../src/jobs/context.ts';
import { configMaps } from '../../src/jobs/sweeps/config-maps.ts';
import { expired, judged as expiryFields } from '../../src/jobs/sweeps/expired.ts';
import { judged as ghostFields, ghosts } from '../../src/jobs/sweeps/ghosts.ts';
import { orphans } from '../../src/jobs/sweeps/orphans.ts';
import { runPlan, type SweepPlan } from '../../src/jobs/sweeps/pass.ts';
import { stuck } from '../../src/jobs/sweeps/stuck.ts';
import { createClusters } from '../../src/kubernetes/clusters.ts';
import { keys as labels } from '../../src/kubernetes/ownership.ts';
import type { Cluster } from '../../src/kubernetes/port.ts';
import { sweepContext } from '../support/sweep-context.ts';
import type { World } from '../support/world.ts';

export interface PassFigures {
  readonly kind: SweepKind;
  /** Objects and records that the pass looked at. */
  readonly objects: number;
  /** Pages of the cluster's API that hold what it has to see, and the requests it made, those for the epoch included. */
  readonly pages: number;
  readonly calls: number;
  /** Reading the same pages of the cluster and of Redis and discarding them. The best of the rounds, as of the pass. */
  readonly floorMs: number;
  readonly passMs: number;
  readonly ratio: number;
  /** Computing time of this process: what is left of the two when the machine is busy with something else. */
  readonly floorCpuMs: number;
  readonly passCpuMs: number;
  /** Longest hold of the event loop in a pass, of the round where it was shortest. */
  readonly maxBlockMs: number;
  readonly maxRssMiB: number;
}

interface Source {
  readonly cluster: Cluster;
  readonly installation: string;
  readonly inventory: Inventory;
}

/** The pages that a kind reads, read and discarded. */
interface Measured {
  readonly plan: SweepPlan;
  readonly floor: (source: Source) => Promise<void>;
}

const owned = ['pods', 'persistentvolumeclaims'] as const;
const objectPages = async ({ cluster, installation }: Source): Promise<void> => {
  for (const kind of owned)
    for await (const page of cluster.listMetadata(kind, `${labels.installation}=${installation}`)) void page;
};
const recordPages = async (
  { inventory }: Source,
  states: readonly State[] | undefined,
  fields: readonly (keyof InstanceRecord)[],
) => {
  let cursor: string | undefined;
  do {
    const page = await inventory.listFields(fields, {
      ...(states && { states }),
      limit: 500,
      ...(cursor === undefined ? {} : { cursor }),
    });
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined);
};

const measured: readonly Measured[] = [
  { plan: orphans, floor: objectPages },
  {
    plan: ghosts,
    floor: async (source) => {
      await objectPages(source);
      await recordPages(source, ['ready', 'lost', 'suspended'], ghostFields);
    },
  },
  {
    plan: stuck,
    floor: async (source) => {
      await objectPages(source);
      await recordPages(source, ['failed', 'lost', 'suspended'], ['hash', 'creates']);
    },
  },
  {
    plan: expired,
    floor: async (source) => {
      await recordPages(source, ['failed'], expiryFields);
      await recordPages(source, ['ready'], expiryFields);
    },
  },
  {
    plan: configMaps,
    floor: async (source) => {
      for await (const page of source.cluster.list('pods', '')) void page;
      await recordPages(source, undefined, ['snapshot']);
    },
  },
];
const rounds = 3;

export async function measurePasses(world: World): Promise<PassFigures[]> {
  const { config, dir } = world.loaded;
  let calls = 0;
  const silent = () => undefined;
  const log = { debug: silent, info: silent, warn: silent };
  const clusters = createClusters(config.clusters, {
    installation: config.installation,
    dir,
    log,
    onCall: () => {
      calls += 1;
    },
  });
  const { context, close } = sweepContext(world, clusters);
  const { inventory } = world.operator;
  const source: Source = { cluster: clusters.get('default'), installation: config.installation, inventory };
  try {
    const figures: PassFigures[] = [];
    for (const one of measured) figures.push(await measure(one, context, source, () => calls));
    return figures;
  } finally {
    await clusters.close();
    close();
  }
}

async function measure(
  { plan, floor }: Measured,
  context: JobContext,
  source: Source,
  calls: () => number,
): Promise<PassFigures> {
  const floors: Timed[] = [];
  const passes: Timed[] = [];
  let [objects, made, pages] = [0, 0, 0];
  for (let round = 0; round < rounds; round += 1) {
    const before = calls();
    floors.push(await timed(() => floor(source)));
    const between = calls();
    passes.push(
      await timed(async () => {
        const [report] = await runPlan(context, plan, { dryRun: true, ackMassDelete: false });
        if (report === undefined || report.stopped || report.candidates > 0)
          throw new Error(`unexpected: ${JSON.stringify(report).slice(0, 2000)}`);
        objects = report.objects;
      }),
    );
    pages = between - before;
    made = calls() - between;
  }
  // What the pass itself costs is in every round; what other processes on the machine cost is not.
  const best = (of: readonly Timed[], figure: keyof Timed) => Math.min(...of.map((round) => round[figure]));
  const [floorMs, passMs] = [best(floors, 'ms'), best(passes, 'ms')];
  return {
    kind: plan.kind,
    objects,
    pages,
    calls: made,
    floorMs,
    passMs,
    ratio: Math.round((100 * passMs) / floorMs) / 100,
    floorCpuMs: best(floors, 'cpuMs'),
    passCpuMs: best(passes, 'cpuMs'),
    maxBlockMs: best(passes, 'blockMs'),
    maxRssMiB: Math.max(...passes.map((round) => round.rssMiB)),
  };
}

interface Timed {
  readonly ms: number;
  readonly cpuMs: number;
  readonly blockMs: number;
  readonly rssMiB: number;
}

async function timed(work: () => Promise<void>): Promise<Timed> {
  let rss = 0;
  const sampler = setInterval(() => {
    rss = Math.max(rss, process.memoryUsage.rss());
  }, 10);
  const delays = monitorEventLoopDelay({ resolution: 10 });
  delays.enable();
  const [start, cpu] = [performance.now(), process.cpuUsage()];
  await work();
  const { user, system } = process.cpuUsage(cpu);
  const ms = Math.round(performance.now() - start);
  delays.disable();
  clearInterval(sampler);
  return {
    ms,
    cpuMs: Math.round((user + system) / 1000),
    blockMs: Math.round(delays.max / 1e6),
    rssMiB: Math.round(rss / 2 ** 20),
  };
}
