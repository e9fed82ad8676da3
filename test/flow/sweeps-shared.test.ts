import { writeFileSync } from 'node:fs';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { SweepReport } from '../../src/jobs/context.ts';
import { orphans } from '../../src/jobs/sweeps/orphans.ts';
import { keys, ownedAnnotations, ownedLabels } from '../../src/kubernetes/ownership.ts';
import type { Cluster } from '../../src/kubernetes/port.ts';
import { claimName, instanceHash, podName } from '../../src/names.ts';
import { type EmbeddedCluster, startCluster } from '../support/cluster.ts';
import { passOn } from '../support/sweep-context.ts';
import { sweepsByHand } from '../support/sweeps-by-hand.ts';
import { createWorld, type World } from '../support/world.ts';

let dir: string;
let good: EmbeddedCluster;
let bad: EmbeddedCluster;
let world: World;
const rules = (of: 'good' | 'bad', ...list: object[]) => writeFileSync(join(dir, `${of}.yaml`), JSON.stringify({ rules: list }));

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'windlass-shared-'));
  rules('good');
  rules('bad');
  good = await startCluster({ faults: join(dir, 'good.yaml') });
  bad = await startCluster({ faults: join(dir, 'bad.yaml'), kubeconfig: join(dir, 'bad.kubeconfig') });
  const cluster = (kubeconfigPath: string) => ({ authMode: 'kubeconfig', kubeconfigPath, namespace: 'default' });
  const clusters = { default: cluster(good.kubeconfig), denied: cluster(bad.kubeconfig) };
  world = await createWorld({
    kubeconfig: good.kubeconfig,
    namespace: 'default',
    image: 'node:24',
    config: { clusters, sweeps: sweepsByHand },
  });
  for (let worker = 0; worker < 3; worker++) await world.worker();
});
afterAll(async () => {
  await world?.stop();
  await Promise.all([good?.close(), bad?.close()]);
  await rm(dir, { recursive: true, force: true });
});

async function run(kind: string): Promise<readonly SweepReport[]> {
  const { jobId } = await world.operator.producer.sweep({ version: 1, kinds: [kind] });
  return (await world.operator.producer.sweepReports(jobId, 60_000)).reports;
}

async function leakClaim(cluster: Cluster, instanceId: string): Promise<string> {
  const hash = instanceHash('test', instanceId);
  const identity = { installation: 'test', instanceId, hash, owner: 'ann', cluster: cluster.name, profile: 'node' };
  const marks = { nonce: 'f'.repeat(64), generation: 100, specHash: 'x' };
  const metadata = {
    name: claimName(hash),
    labels: ownedLabels(identity),
    annotations: ownedAnnotations({ ...identity, ...marks }),
  };
  await cluster.create('persistentvolumeclaims', {
    metadata,
    spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Mi' } } },
  });
  return claimName(hash);
}

describe('C95: a namespace that may not be listed', () => {
  it('degrades only itself: the other one is swept and takes launches', async () => {
    const denied = world.operator.clusters.get('denied');
    const [here, there] = [await leakClaim(world.cluster, 'here'), await leakClaim(denied, 'there')];
    const forbidden = {
      error: { code: 403, reason: 'Forbidden', message: 'persistentvolumeclaims is forbidden: cannot list resource' },
    };
    rules('bad', { verb: 'list', resource: 'persistentvolumeclaims', fault: forbidden });
    await run('orphans');
    const reports = await run('orphans');
    expect(reports.map(({ cluster, deleted, stopped }) => [cluster, deleted, stopped?.code])).toEqual([
      ['default', 1, undefined],
      ['denied', 0, 'permission_denied'],
    ]);
    expect(await world.cluster.read('persistentvolumeclaims', here)).toBeUndefined();
    expect(await denied.read('persistentvolumeclaims', there)).toBeDefined();
    await world.operator.producer.launch({ version: 1, instanceId: 'fine', profile: 'node', cluster: 'default' });
    await world.ready('fine');
    rules('bad');
  });
});

describe('a candidate that changes between the read and the delete', () => {
  /** A view whose first deletion of `name` comes right after `change`. */
  const changedOnce = (name: string, change: () => Promise<unknown>): Cluster => {
    let changed = false;
    return {
      ...world.cluster,
      async remove(kind, asked, options) {
        if (asked === name && !changed) {
          changed = true;
          await change();
        }
        return world.cluster.remove(kind, asked, options);
      },
    };
  };
  const annotate = (name: string, annotations: Record<string, string>) =>
    world.cluster.patch('persistentvolumeclaims', name, { metadata: { annotations } });
  const actionOf = async (name: string, annotations: Record<string, string>) => {
    await passOn(world, orphans);
    const view = changedOnce(name, () => annotate(name, annotations));
    return (await passOn(world, orphans, view)).entries.find((entry) => entry.name === name)?.action;
  };

  it('goes in the same pass when it is still nobody’s: its node had written a status', async () => {
    const name = await leakClaim(world.cluster, 'busy');
    expect(await actionOf(name, { status: 'new' })).toBe('deleted');
    expect(await world.cluster.read('persistentvolumeclaims', name)).toBeUndefined();
  });

  it('stays when the change makes it somebody’s', async () => {
    const name = await leakClaim(world.cluster, 'kept');
    expect(await actionOf(name, { [keys.retained]: 'true' })).toBe('changed');
    const there = await world.cluster.read('persistentvolumeclaims', name);
    expect(there?.metadata?.deletionTimestamp).toBeUndefined();
    await world.cluster.remove('persistentvolumeclaims', name, { uid: there?.metadata?.uid ?? '' });
  });
});

describe('C43: three workers and a sweep that takes longer than its period', () => {
  it('never run two of a kind at once, and nothing piles up', async () => {
    rules('good', { verb: 'list', resource: 'persistentvolumeclaims', fault: { delayMs: 700 } });
    const all = (await Promise.all(Array.from({ length: 9 }, () => run('orphans')))).flat();
    const ran = all.filter((report) => report.stopped?.code !== 'lease_held' && report.cluster === 'default');
    const spans = ran
      .map((report) => [Date.parse(report.startedAt), Date.parse(report.startedAt) + report.durationMs] as const)
      .sort((a, b) => a[0] - b[0]);
    for (const [index, [start]] of spans.entries())
      if (index > 0) expect(start).toBeGreaterThanOrEqual((spans[index - 1] as (typeof spans)[number])[1]);
    // Those that met another one ended at once and said so.
    const overlaps = all.filter((report) => report.stopped?.code === 'lease_held').length;
    expect(overlaps).toBeGreaterThan(0);
    const { sweep } = await world.operator.producer.queues();
    const counted = async () =>
      (await sweep.getCompleted()).reduce((sum, job) => sum + Number(job.returnvalue?.overlaps ?? 0), 0);
    await expect.poll(counted).toBe(overlaps);
    expect(ran.length).toBeGreaterThan(0);
    expect((await world.operator.producer.lastSweeps()).some((report) => report.stopped?.code === 'lease_held')).toBe(false);
    // One of the schedule may be at it just now.
    await expect.poll(() => sweep.getJobCountByTypes('waiting', 'active', 'prioritized')).toBe(0);
    rules('good');
  });
});

describe('C37: a secret of a launch', () => {
  it('is in no object of the cluster and in plain text nowhere in Redis, so none can leak', async () => {
    const secret = 'a-secret-to-look-for';
    await world.operator.producer.launch({ version: 1, instanceId: 'secretive', profile: 'node', secretEnv: { TOKEN: secret } });
    const record = await world.ready('secretive');
    const objects = [
      await world.cluster.read('pods', podName(record.hash)),
      await world.cluster.read('persistentvolumeclaims', claimName(record.hash)),
    ];
    for await (const page of world.cluster.list('configmaps', '')) objects.push(...(page as never[]));
    const forms = [secret, Buffer.from(secret).toString('base64').replaceAll('=', '')];
    for (const form of forms) expect(JSON.stringify(objects)).not.toContain(form);
    const raw = new Redis(world.redis.url);
    for (const key of await raw.keys('*')) {
      const type = await raw.type(key);
      const content =
        type === 'string'
          ? await raw.get(key)
          : type === 'hash'
            ? await raw.hgetall(key)
            : type === 'stream'
              ? await raw.xrange(key, '-', '+')
              : null;
      for (const form of forms) expect(`${key} ${JSON.stringify(content)}`).not.toContain(form);
    }
    raw.disconnect();
    expect((await world.exec('secretive', ['/bin/sh', '-c', 'printf %s "$TOKEN"'])).stdout).toBe(secret);
  });
});
