import { randomBytes } from 'node:crypto';
import type { LoadedConfig } from '../config/load.ts';
import { WindlassError } from '../errors.ts';
import type { Cluster } from '../kubernetes/port.ts';
import { epochName } from '../names.ts';
import type { Perform } from './doctor.ts';

/** What the shipped Role grants (design §8); each verb is asked for by itself, so that the answer names what is missing. */
const needed: readonly { readonly resource: string; readonly subresource?: string; readonly verbs: readonly string[] }[] = [
  { resource: 'pods', verbs: ['get', 'list', 'watch', 'create', 'patch', 'delete'] },
  { resource: 'persistentvolumeclaims', verbs: ['get', 'list', 'watch', 'create', 'patch', 'delete'] },
  { resource: 'pods', subresource: 'exec', verbs: ['get', 'create'] },
  { resource: 'pods', subresource: 'portforward', verbs: ['get', 'create'] },
  { resource: 'pods', subresource: 'log', verbs: ['get'] },
  { resource: 'configmaps', verbs: ['get', 'list', 'create', 'delete'] },
  { resource: 'events', verbs: ['list', 'watch'] },
  { resource: 'resourcequotas', verbs: ['list', 'watch'] },
];

/** Server, namespace and rights of one cluster. Nothing is left behind: the one create is a dry run. */
export async function examineCluster(loaded: LoadedConfig, name: string, perform: Perform): Promise<void> {
  const { checkClusterConfig, createClusters } = await import('../kubernetes/clusters.ts');
  const { createLogger } = await import('../log.ts');
  const { config, dir } = loaded;
  const usable = await perform(`kubeconfig.${name}`, async () => {
    const issues = await checkClusterConfig(name, config.clusters[name]!, dir);
    if (issues.length > 0)
      throw new WindlassError('config_invalid', `The connection of cluster "${name}" is not usable.`, { issues });
    return config.clusters[name]!.authMode;
  });
  if (!usable) return;
  const clusters = createClusters(config.clusters, { installation: config.installation, dir, log: createLogger('silent') });
  try {
    const cluster = clusters.get(name);
    const reachable = await perform(`discovery.${name}`, async () => {
      const { gitVersion, serverTime } = await cluster.version();
      const skew = Math.round((Date.now() - serverTime) / 1000);
      return `Kubernetes ${gitVersion}${Math.abs(skew) > 5 ? `, its clock differs by ${skew} s` : ''}`;
    });
    if (!reachable) return;
    await perform(`namespace.${name}`, () => tryNamespace(cluster));
    await examineRights(cluster, name, perform, config.installation);
  } finally {
    await clusters.close();
  }
}

/** Our Role cannot read namespaces: only a create tells whether ours is there. */
async function tryNamespace(cluster: Cluster): Promise<string> {
  const metadata = { name: `windlass-doctor-${randomBytes(4).toString('hex')}` };
  await cluster.create('configmaps', { apiVersion: 'v1', kind: 'ConfigMap', metadata }, { dryRun: true });
  return cluster.namespace;
}

async function examineRights(cluster: Cluster, name: string, perform: Perform, installation: string): Promise<void> {
  const epoch = { resource: 'configmaps', name: epochName(installation), verbs: ['patch'] };
  for (const { verbs, ...target } of [...needed, epoch]) {
    const { resource, subresource } = { subresource: undefined, ...target };
    const what = subresource === undefined ? resource : `${resource}/${subresource}`;
    for (const verb of verbs) {
      await perform(`rbac.${name}.${what}.${verb}`, async () => {
        const { allowed, reason } = await cluster.can({ verb, ...target });
        if (allowed) return 'allowed';
        const why = reason ? `: ${reason}` : '';
        throw new WindlassError(
          'permission_denied',
          `The cluster does not let Windlass ${verb} ${what} in ${cluster.namespace}${why}.`,
        );
      });
    }
  }
}
