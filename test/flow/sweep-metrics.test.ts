import { afterAll, beforeAll, expect, it } from 'vitest';
import { ownedAnnotations, ownedLabels } from '../../src/kubernetes/ownership.ts';
import { startWorker, type WorkerHandle } from '../../src/main.ts';
import { claimName, instanceHash } from '../../src/names.ts';
import { type EmbeddedCluster, startCluster } from '../support/cluster.ts';
import { sweepReport } from '../support/recover-flow.ts';
import { atOnce } from '../support/sweeps-by-hand.ts';
import { createWorld, type World } from '../support/world.ts';

let embedded: EmbeddedCluster;
let world: World;
let worker: WorkerHandle;
/** Once a year: a scheduled pass would count too. */
const sweeps = {
  ...Object.fromEntries(['orphans', 'ghosts', 'expired', 'config-maps', 'stuck'].map((kind) => [kind, atOnce])),
  breaker: { minCandidates: 1, maxFraction: 0 },
};

beforeAll(async () => {
  embedded = await startCluster();
  world = await createWorld({ kubeconfig: embedded.kubeconfig, namespace: 'default', image: 'node:24', config: { sweeps } });
  worker = await startWorker(world.loaded, { queues: ['launch', 'teardown', 'sweep'], port: 0 });
});
afterAll(async () => {
  await worker?.close();
  await world?.stop();
  await embedded?.close();
});

async function leak(instanceId: string): Promise<void> {
  const hash = instanceHash('test', instanceId);
  const identity = { installation: 'test', instanceId, hash, owner: 'ann', cluster: 'default', profile: 'node' };
  const marks = { nonce: 'f'.repeat(64), generation: 100, specHash: 'x' };
  const annotations = ownedAnnotations({ ...identity, ...marks });
  await world.cluster.create('persistentvolumeclaims', {
    metadata: { name: claimName(hash), labels: ownedLabels(identity), annotations },
    spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Mi' } } },
  });
}

/** The values of one metric by their labels, as a scraper reads them. */
async function scrape(name: string): Promise<Record<string, number>> {
  const text = await (await fetch(`http://127.0.0.1:${worker.port}/metrics`)).text();
  const lines = text.split('\n').filter((line) => line.startsWith(`${name}{`));
  return Object.fromEntries(lines.map((line) => [/\{(.*)\}/.exec(line)?.[1], Number(line.split(' ').at(-1))]));
}

it('sweeps tell what they decided, whether the breaker is open and when one last went to its end', async () => {
  expect(await scrape('windlass_sweep_last_success_timestamp_seconds')).toMatchObject({ 'kind="orphans"': 0, 'kind="stuck"': 0 });
  await leak('a');
  await leak('b');
  const before = (await world.operator.inventory.now()) / 1000;
  expect((await sweepReport(world, 'orphans'))?.verdicts).toEqual({ keep: 0, watch: 2 });
  const first = (await scrape('windlass_sweep_last_success_timestamp_seconds'))['kind="orphans"'];
  expect(first).toBeGreaterThanOrEqual(before);
  expect(await scrape('windlass_breaker_open')).toMatchObject({ 'kind="orphans"': 0, 'kind="ghosts"': 0 });

  expect((await sweepReport(world, 'orphans'))?.stopped?.code).toBe('mass_delete_refused');
  expect(await scrape('windlass_breaker_open')).toMatchObject({ 'kind="orphans"': 1, 'kind="ghosts"': 0 });
  expect((await scrape('windlass_sweep_last_success_timestamp_seconds'))['kind="orphans"']).toBe(first);

  const { jobId } = await world.operator.producer.sweep({ version: 1, kinds: ['orphans'], ackMassDelete: true });
  await world.operator.producer.sweepReports(jobId, 60_000);
  expect(await scrape('windlass_breaker_open')).toMatchObject({ 'kind="orphans"': 0 });
  expect(await scrape('windlass_sweep_objects_total')).toMatchObject({
    'kind="orphans",verdict="watch"': 2,
    'kind="orphans",verdict="delete"': 4,
  });
});
