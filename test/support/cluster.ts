import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startLocalCluster } from '../../src/local-cluster/start.ts';
import type { LocalCluster, LocalClusterOptions } from '../../src/local-cluster/types.ts';

export type EmbeddedCluster = LocalCluster;

/**
 * The embedded cluster in this process, on a free port, with everything it writes in a folder of its own. Without
 * options it runs as `windlass local-cluster` would here: sandboxed when that works, WINDLASS_SANDBOX=none respected.
 */
export async function startCluster(options: Partial<LocalClusterOptions> = {}): Promise<EmbeddedCluster> {
  const dir = await mkdtemp(join(tmpdir(), 'windlass-cluster-'));
  const sandbox = process.env.WINDLASS_SANDBOX === 'none' ? 'none' : 'auto';
  const cluster = await startLocalCluster({ port: 0, kubeconfig: join(dir, 'kubeconfig'), sandbox, ...options });
  return {
    ...cluster,
    async close() {
      await cluster.close();
      await rm(dir, { recursive: true, force: true });
    },
  };
}
