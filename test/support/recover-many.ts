import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { poll, sleep } from '../../src/clock.ts';
import { runCluster } from '../../src/local-cluster/cluster.ts';
import { claimName, instanceHash, podName } from '../../src/names.ts';
import { createLightNode, type LightNode } from './light-node.ts';
import { flushAll, sweepReport } from './recover-flow.ts';
import { createWorld, type World } from './world.ts';

export interface RecoveryFigures {
  readonly live: number;
  /** Records that are `ready` and `recovered`, of the same Pod and claim as before. */
  readonly recordsBack: number;
  readonly podsDeleted: number;
  readonly podsReplacedOrRestarted: number;
  readonly claimsLost: number;
  /** Of the sweeps that ran while the inventory was lost, with no grace and no breaker. */
  readonly sweptMeanwhile: number;
  readonly launchesAcceptedMeanwhile: number;
  readonly launchesReadyOfThose: number;
  /** Removals that were under way: records and objects left of them. */
  readonly removalsUnderWay: number;
  readonly leftOfThem: number;
  readonly launchMs: number;
  readonly recoverMs: number;
}

const leaving = 4;
/** The rate of the load. */
const perLaunchMs = 200;
const atOnce = { cron: '0 0 1 1 *', graceSeconds: 0, maxDeletes: 10_000 };

/**
 * FLUSHALL under `count` live instances and a stream of launches, with removals half-way: by real launches, records and
 * removals, on a node without processes. `recover` asks for the records; nothing to do where a worker notices by itself.
 */
export async function recoverMany(
  count: number,
  recover: (world: World) => Promise<void>,
  more: object = {},
): Promise<RecoveryFigures> {
  const dir = await mkdtemp(join(tmpdir(), 'windlass-many-'));
  const kubeconfig = join(dir, 'kubeconfig');
  const node = createLightNode();
  const cluster = await runCluster({ port: 0, kubeconfig }, node.start);
  const sweeps = Object.fromEntries(['orphans', 'ghosts', 'expired', 'config-maps', 'stuck'].map((kind) => [kind, atOnce]));
  const light = {
    podTemplateFile: 'profiles/node.yaml',
    workspace: { mode: 'managed_pvc', size: '1Mi' },
    agent: { delivery: 'none' },
  };
  const world = await createWorld({
    kubeconfig,
    namespace: 'default',
    image: 'node:24',
    config: {
      profiles: { light },
      sweeps: { ...sweeps, breaker: { minCandidates: 100_000, maxFraction: 1 } },
      limits: { maxInstances: 10_000, launching: 1000 },
      ...more,
    },
  });
  try {
    await world.worker();
    return await flushUnderLoad(world, node, count, recover);
  } finally {
    await world.stop();
    await cluster.close();
    await rm(dir, { recursive: true, force: true });
  }
}

async function flushUnderLoad(
  world: World,
  node: LightNode,
  count: number,
  recover: (world: World) => Promise<void>,
): Promise<RecoveryFigures> {
  const { producer, inventory } = world.operator;
  const launch = (instanceId: string, owner: string) => producer.launch({ version: 1, instanceId, profile: 'light', owner });
  const ids = Array.from({ length: count }, (_, at) => `live ${at}`);
  const goers = Array.from({ length: leaving }, (_, at) => `leaving ${at}`);
  const startedAt = performance.now();
  await Promise.all([...ids, ...goers].map((id, at) => launch(id, `owner ${Math.floor(at / 10)}`)));
  const before = await Promise.all(ids.map((id) => world.ready(id, 600)));
  for (const id of goers) await world.ready(id, 600);
  const launchMs = Math.round(performance.now() - startedAt);

  node.hold();
  for (const instanceId of goers) await producer.teardown({ version: 1, instanceId });
  const names = goers.map((id) => podName(instanceHash('test', id)));
  await until(async () => names.every((name) => node.deleted.includes(name)));

  const load = startLoad((at) => launch(`during ${at}`, `crowd ${at}`));
  await until(async () => load.accepted.length >= 5);
  await flushAll(world);
  const sincePoint = load.mark();
  let sweptMeanwhile = 0;
  for (let pass = 0; pass < 2; pass += 1) {
    const report = await sweepReport(world, 'orphans');
    if (report?.stopped?.code !== 'inventory_lost') throw new Error(`a sweep went on: ${JSON.stringify(report)?.slice(0, 500)}`);
    sweptMeanwhile += report.deleted;
  }
  const flushedAt = performance.now();
  await recover(world);
  for (const id of ids) await world.until(id, (record) => record?.state === 'ready', 300);
  const recoverMs = Math.round(performance.now() - flushedAt);
  await until(async () => load.accepted.length > sincePoint);
  await load.stop();
  node.letGo();
  for (const id of goers) await world.gone(id, 120);
  const accepted = load.accepted.slice(sincePoint);
  const launched = await Promise.all(accepted.map((id) => world.ready(id, 120)));

  const after = await Promise.all(ids.map((id) => inventory.read(id)));
  const now = { pods: new Map<string, string>(), claims: new Map<string, string>() };
  for await (const page of world.cluster.list('pods', ''))
    for (const { metadata, status } of page)
      if (status?.containerStatuses?.every((one) => one.restartCount === 0))
        now.pods.set(metadata?.name ?? '', metadata?.uid ?? '');
  for await (const page of world.cluster.list('persistentvolumeclaims', ''))
    for (const { metadata } of page) if (!metadata?.deletionTimestamp) now.claims.set(metadata?.name ?? '', metadata?.uid ?? '');
  const same = before.filter(({ pod, workspace }, at) => {
    const record = after[at];
    const back = record?.state === 'ready' && record.recovered === true;
    return back && record.pod?.uid === pod?.uid && record.workspace?.claimUid === workspace?.claimUid;
  });
  return {
    live: count,
    recordsBack: same.length,
    podsDeleted: before.filter(({ hash }) => node.deleted.includes(podName(hash))).length,
    podsReplacedOrRestarted: before.filter(({ hash, pod }) => now.pods.get(podName(hash)) !== pod?.uid).length,
    claimsLost: before.filter(({ hash, workspace }) => now.claims.get(claimName(hash)) !== workspace?.claimUid).length,
    sweptMeanwhile,
    launchesAcceptedMeanwhile: accepted.length,
    launchesReadyOfThose: launched.length,
    removalsUnderWay: goers.length,
    leftOfThem: goers.filter((id) => {
      const hash = instanceHash('test', id);
      return now.pods.has(podName(hash)) || now.claims.has(claimName(hash));
    }).length,
    launchMs,
    recoverMs,
  };
}

/** Launches one after another until it is stopped; what Redis refuses is an error of the run. */
function startLoad(launch: (at: number) => Promise<unknown>) {
  const accepted: string[] = [];
  let stopped = false;
  const running = (async () => {
    for (let at = 0; !stopped; at += 1) {
      await launch(at);
      accepted.push(`during ${at}`);
      await sleep(perLaunchMs);
    }
  })();
  return {
    accepted: accepted as readonly string[],
    /** What is accepted from the next one on was asked for after this moment. */
    mark: () => accepted.length + 1,
    async stop() {
      stopped = true;
      await running;
    },
  };
}

async function until(holds: () => Promise<boolean>): Promise<void> {
  if (!(await poll(holds, { everyMs: 20, forMs: 120_000 }))) throw new Error('it did not come true within two minutes');
}

/** What must hold whatever the number of instances; the reasons why it does not. */
export function broken(figures: RecoveryFigures): string[] {
  const { live, recordsBack, podsDeleted, podsReplacedOrRestarted, claimsLost, sweptMeanwhile, leftOfThem } = figures;
  const { launchesAcceptedMeanwhile, launchesReadyOfThose } = figures;
  return [
    ...(recordsBack === live ? [] : [`${live - recordsBack} records are not back`]),
    ...(podsDeleted + podsReplacedOrRestarted === 0 ? [] : ['Pods were deleted, replaced or restarted']),
    ...(claimsLost === 0 ? [] : [`${claimsLost} claims were lost`]),
    ...(sweptMeanwhile === 0 ? [] : [`sweeps deleted ${sweptMeanwhile} objects`]),
    ...(launchesAcceptedMeanwhile > 0 && launchesReadyOfThose === launchesAcceptedMeanwhile
      ? []
      : ['launches meanwhile did not get ready']),
    ...(leftOfThem === 0 ? [] : [`${leftOfThem} removals were not finished`]),
  ];
}
