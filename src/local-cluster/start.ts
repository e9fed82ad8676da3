import { runCluster } from './cluster.ts';
import { startNode } from './kubelet/node.ts';
import type { LocalCluster, LocalClusterOptions } from './types.ts';

/**
 * Starts the embedded cluster: an API server on loopback and one node whose Pods are local processes. Resolves once
 * `/readyz` answers and the kubeconfig is written. `close` ends every Pod and removes every file it made, kubeconfig
 * and data folder included. Rejects, with nothing left behind, when any part cannot start.
 */
export const startLocalCluster = (options: LocalClusterOptions): Promise<LocalCluster> => runCluster(options, startNode);
