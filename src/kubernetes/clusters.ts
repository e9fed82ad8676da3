import type { ClusterConfig } from '../config/schema.ts';
import { type Issue, WindlassError } from '../errors.ts';
import { type ClusterOptions, createCluster } from './cluster.ts';
import { loadKubeConfig } from './kubeconfig.ts';
import type { Cluster, Clusters } from './port.ts';

/** The configured clusters. Nothing is read or connected before a cluster's first call. */
export function createClusters(configs: Readonly<Record<string, ClusterConfig>>, options: ClusterOptions): Clusters {
  const built = new Map<string, Cluster>();
  return {
    names: () => Object.keys(configs),
    get(name) {
      const known = built.get(name);
      if (known) return known;
      const config = Object.hasOwn(configs, name) ? configs[name] : undefined;
      if (!config) {
        const message = `there is no cluster "${name}" in the configuration`;
        throw new WindlassError('config_invalid', `clusters.${name}: ${message}`, {
          issues: [{ path: `clusters.${name}`, message }],
        });
      }
      const cluster = createCluster(name, config, options);
      built.set(name, cluster);
      return cluster;
    },
    async close() {
      const open = [...built.values()];
      built.clear();
      await Promise.all(open.map((cluster) => cluster.close()));
    },
  };
}

/** What is wrong with a connection as configured (files, context, authMode), without calling the cluster. */
export async function checkClusterConfig(name: string, config: ClusterConfig, dir: string): Promise<Issue[]> {
  try {
    await loadKubeConfig(name, config, dir);
    return [];
  } catch (error) {
    if (error instanceof WindlassError && error.code === 'config_invalid') return [...error.issues];
    throw error;
  }
}
