import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runCluster } from '../../src/local-cluster/cluster.ts';
import type { LocalCluster, LocalClusterOptions } from '../../src/local-cluster/types.ts';
import { connectHttp } from '../support/kube-http.ts';
import { nodeDouble } from '../unit/local-cluster/node-double.ts';

export { eventually, jsonPatch, merge, strategic } from '../support/kube-http.ts';

/** An embedded cluster whose Pods are played by a double, and a client that speaks plain HTTP to it. */
export async function startApi(options: Partial<LocalClusterOptions> = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'windlass-api-'));
  const kubeconfig = join(folder, 'kubeconfig');
  const cluster: LocalCluster = await runCluster({ port: 0, kubeconfig, ...options }, nodeDouble);
  const http = await connectHttp(kubeconfig);
  return {
    ...http,
    cluster,
    folder,
    kubeconfig,
    async close(): Promise<void> {
      await http.agent.destroy();
      await cluster.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

export type Api = Awaited<ReturnType<typeof startApi>>;

export const podBody = (name: string, spec: object = {}) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name },
  spec: { containers: [{ name: 'c', image: 'busybox:local', command: ['sleep', '1000'] }], ...spec },
});

export const claimBody = (name: string, storage = '1Gi') => ({
  metadata: { name },
  spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage } } },
});
