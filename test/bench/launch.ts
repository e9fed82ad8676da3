import { sleep } from '../../src/clock.ts';
import { startCluster } from '../support/cluster.ts';
import { createWorld, type World } from '../support/world.ts';
import { floorOfLaunch } from './floor.ts';

/**
 * How long one launch takes, from the request to ready, as a ratio to the floor: the same objects made and the same
 * agent reached by hand, with nothing recorded, in the same run on the same cluster. One JSON document on stdout.
 */
const rounds = Number(process.argv[2] ?? 10);

const embedded = await startCluster();
const world = await createWorld({
  kubeconfig: embedded.kubeconfig,
  namespace: 'default',
  image: 'node:24',
  storageClass: 'immediate',
});
try {
  await world.worker();
  const launches: number[] = [];
  const teardowns: number[] = [];
  const floors: number[] = [];
  await launchOnce(world, 'warm-up');
  await floorOfLaunch(world, 'warm-up');
  for (let round = 0; round < rounds; round += 1) {
    floors.push(await floorOfLaunch(world, `floor-${round}`));
    const { launchMs, teardownMs } = await launchOnce(world, `bench-${round}`);
    launches.push(launchMs);
    teardowns.push(teardownMs);
    await sleep(50);
  }
  const [launch, floor, teardown] = [launches, floors, teardowns].map(summary);
  const ratio = round2((launch?.p50 ?? 0) / (floor?.p50 ?? 1));
  process.stdout.write(`${JSON.stringify({ schema: 'windlass/v1', bench: 'launch', rounds, launch, floor, teardown, ratio })}\n`);
} finally {
  await world.stop();
  await embedded.close();
}

async function launchOnce(on: World, instanceId: string): Promise<{ launchMs: number; teardownMs: number }> {
  const start = performance.now();
  await on.operator.producer.launch({ version: 1, instanceId, profile: 'node' });
  await on.ready(instanceId);
  const launched = performance.now();
  await on.operator.producer.teardown({ version: 1, instanceId });
  await on.gone(instanceId);
  return { launchMs: launched - start, teardownMs: performance.now() - launched };
}

function summary(values: readonly number[]): { p50: number; p90: number } {
  const sorted = [...values].sort((a, b) => a - b);
  const at = (share: number) => round2(sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? 0);
  return { p50: at(0.5), p90: at(0.9) };
}

function round2(value: number): number {
  return Math.round(value * 100) / 100;
}
