import { Redis } from 'ioredis';
import { createKeys, inventoryTag } from '../../src/inventory/keys.ts';
import type { InstanceRecord } from '../../src/inventory/types.ts';
import { claimName, podName } from '../../src/names.ts';
import { startCluster } from '../support/cluster.ts';
import type { TestRedis } from '../support/redis.ts';
import { createWorld } from '../support/world.ts';

export interface Samples {
  readonly installation: string;
  readonly tag: string;
  /** One of each, to be copied under other names. */
  readonly pod: object;
  readonly claim: object;
  /** What all share. */
  readonly maps: readonly object[];
  /** A ready record with both objects, and a failed one without. */
  readonly ready: Sample;
  readonly failed: Sample;
}

export interface Sample {
  readonly instanceId: string;
  readonly hash: string;
  readonly podUid: string;
  readonly claimUid: string;
  /** The record's hash in Redis. */
  readonly fields: Readonly<Record<string, string>>;
}

/** Once a year: the passes are the bench's own. */
export const never = Object.fromEntries(
  ['orphans', 'ghosts', 'expired', 'config-maps', 'stuck'].map((kind) => [kind, { cron: '0 0 1 1 *' }]),
);

/** What a launch that went well and one that failed leave behind, made by the product on a cluster of their own. */
export async function takeSamples(kubeconfig: string, redis: TestRedis): Promise<Samples> {
  const embedded = await startCluster({ kubeconfig });
  const world = await createWorld({ kubeconfig, namespace: 'default', image: 'node:24', redis, config: { sweeps: never } });
  try {
    const worker = await world.worker();
    const launch = (instanceId: string, more: object = {}) =>
      world.operator.producer.launch({ version: 1, instanceId, profile: 'node', owner: 'bench', ...more });
    await launch('crowd');
    await launch('crowd that failed', { prepare: 'exit 1' });
    const ready = await world.ready('crowd');
    const failed = await world.until('crowd that failed', (record) => record?.state === 'failed');
    if (failed === undefined) throw new Error('there is no failed record');
    const pod = await world.cluster.read('pods', podName(ready.hash));
    const claim = await world.cluster.read('persistentvolumeclaims', claimName(ready.hash));
    const maps: object[] = [];
    for await (const page of world.cluster.list('configmaps', 'windlass.dev/installation')) maps.push(...page.map(old));
    await worker.close();
    const { redis: settings, installation } = world.loaded.config;
    const tag = inventoryTag(settings.prefix, installation);
    return {
      installation,
      tag,
      maps,
      pod: { apiVersion: 'v1', kind: 'Pod', ...pod },
      claim: { apiVersion: 'v1', kind: 'PersistentVolumeClaim', ...claim },
      ready: await sampleOf(redis, tag, ready),
      failed: await sampleOf(redis, tag, failed),
    };
  } finally {
    await world.stop();
    await embedded.close();
  }
}

/** Old enough for a sweep to ask who uses it: that is the dear part of its pass. */
const old = <T extends { metadata?: object }>(map: T) => {
  const creationTimestamp = new Date(Date.now() - 2 * 86_400_000).toISOString();
  return { apiVersion: 'v1', kind: 'ConfigMap', ...map, metadata: { ...map.metadata, creationTimestamp } };
};

async function sampleOf(server: TestRedis, tag: string, { instanceId, hash, pod, workspace }: InstanceRecord): Promise<Sample> {
  const redis = new Redis(server.url);
  const fields = await redis.hgetall(createKeys(tag).record(hash));
  redis.disconnect();
  return { instanceId, hash, podUid: pod?.uid ?? 'no Pod', claimUid: workspace?.claimUid ?? 'no claim', fields };
}
