import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { runCluster } from '../../src/local-cluster/cluster.ts';
import type { LocalCluster, LocalClusterOptions } from '../../src/local-cluster/types.ts';
import { createLightNode } from './light-node.ts';

/** The embedded API over a node without processes: for crowds, where nothing is to run inside. */
export async function startLightCluster(options: Partial<LocalClusterOptions> = {}): Promise<LocalCluster> {
  const dir = await mkdtemp(join(tmpdir(), 'windlass-light-'));
  const cluster = await runCluster({ port: 0, kubeconfig: join(dir, 'kubeconfig'), ...options }, createLightNode().start);
  return {
    ...cluster,
    async close() {
      await cluster.close();
      await rm(dir, { recursive: true, force: true });
    },
  };
}

/** Profiles whose instances are ready as soon as their Pod runs. */
export const lightProfiles = {
  node: {
    podTemplateFile: 'profiles/node.yaml',
    workspace: { mode: 'managed_pvc', size: '1Mi' },
    agent: { delivery: 'none' },
  },
  scratch: { podTemplateFile: 'profiles/node.yaml', workspace: { mode: 'empty_dir' }, agent: { delivery: 'none' } },
};
