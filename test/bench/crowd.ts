import { Redis } from 'ioredis';
import { createKeys } from '../../src/inventory/keys.ts';
import { type NodeOptions, runCluster } from '../../src/local-cluster/cluster.ts';
import type { KubeObject, NodeRuntime, Store } from '../../src/local-cluster/types.ts';
import { instanceHash } from '../../src/names.ts';
import type { TestRedis } from '../support/redis.ts';
import { type Sample, type Samples, takeSamples } from './sample.ts';

/**
 * A process of its own with the embedded API over N objects, and N records in Redis: copies of what was made by the
 * product itself, so that the pass that is measured shares neither memory nor event loop with what it reads.
 */
export interface CrowdOrder {
  readonly kubeconfig: string;
  readonly redis: Pick<TestRedis, 'url' | 'port' | 'pid'>;
  readonly count: number;
}

const batch = 500;

process.once('message', (order: CrowdOrder) => {
  void serve(order).then(
    () => process.send?.('there'),
    (error: unknown) => {
      process.stderr.write(`${String(error)}\n`);
      process.exitCode = 1;
      process.disconnect();
    },
  );
});

async function serve({ kubeconfig, redis, count }: CrowdOrder): Promise<void> {
  const samples = await takeSamples(kubeconfig, { ...redis, stop: async () => undefined });
  await makeRecords(redis.url, samples, count);
  const cluster = await runCluster({ port: 0, kubeconfig }, async ({ store }: NodeOptions) => {
    makeObjects(store, samples, count);
    return still;
  });
  process.once('disconnect', () => void cluster.close());
}

/** Half of the records are ready, each with a Pod and a claim: as many objects as records. */
function makeObjects(store: Store, { ready, installation, maps, ...samples }: Samples, count: number): void {
  const [pod, claim] = [JSON.stringify(samples.pod), JSON.stringify(samples.claim)];
  for (let at = 0; at < count / 2; at += 1) {
    const copy = copyOf(ready, installation, at);
    store.create('pods', JSON.parse(copy(pod)) as KubeObject);
    store.create('persistentvolumeclaims', JSON.parse(copy(claim)) as KubeObject);
  }
  for (const map of maps as KubeObject[]) store.create('configmaps', map);
}

async function makeRecords(url: string, { tag, installation, ready, failed }: Samples, count: number): Promise<void> {
  const redis = new Redis(url);
  const keys = createKeys(tag);
  for (let from = 0; from < count / 2; from += batch) {
    const pipeline = redis.pipeline();
    for (let at = from; at < Math.min(count / 2, from + batch); at += 1) {
      for (const sample of [ready, failed]) {
        const fields = JSON.parse(copyOf(sample, installation, at)(JSON.stringify(sample.fields))) as Record<string, string>;
        const { hash = '', state = '', owner = '', createdAt = '', expiresAt = '0' } = fields;
        const member = `${createdAt.padStart(15, '0')}-${hash}`;
        pipeline.hset(keys.record(hash), fields);
        for (const index of [keys.all, keys.state(state), keys.owner(owner)]) pipeline.zadd(index, 0, member);
        if (Number(expiresAt) > 0) pipeline.zadd(keys.expiry, expiresAt, hash);
      }
    }
    await pipeline.exec();
  }
  redis.disconnect();
}

/** The text of an object or a record under the name of the one at that place; the first is the sample itself. */
function copyOf(sample: Sample, installation: string, at: number): (text: string) => string {
  const instanceId = at === 0 ? sample.instanceId : `${sample.instanceId}-${at}`;
  const hash = instanceHash(installation, instanceId);
  const place = at.toString(16).padStart(12, '0');
  const uid = (of: string) => `${of.slice(0, -12)}${place}`;
  return (text) =>
    text
      .replaceAll(sample.hash, hash)
      .replaceAll(`"${sample.instanceId}"`, `"${instanceId}"`)
      .replaceAll(`\\"${sample.instanceId}\\"`, `\\"${instanceId}\\"`)
      .replaceAll(sample.podUid, uid(sample.podUid))
      .replaceAll(sample.claimUid, uid(sample.claimUid));
}

const refuse = () => Promise.reject({ status: 500, message: 'there are no processes here' });
/** A node whose Pods are entries in a list. */
const still: NodeRuntime = {
  mode: { kind: 'path', reason: 'a bench' },
  exec: refuse,
  attach: refuse,
  logs: refuse,
  dial: refuse,
  close: async () => undefined,
};
