import { randomBytes } from 'node:crypto';
import type { LoadedConfig } from '../config/load.ts';
import type { ClusterConfig } from '../config/schema.ts';
import { WindlassError } from '../errors.ts';
import type { Recipe } from '../jobs/recipes.ts';
import type { Cluster } from '../kubernetes/port.ts';
import { epochName } from '../names.ts';
import type { Perform } from './doctor.ts';
import type { Trial } from './doctor-profile.ts';

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

export interface ClusterPlan {
  readonly loaded: LoadedConfig;
  readonly recipes: readonly Recipe[];
  /** Runs a disposable instance of this recipe when everything before it is fine; undefined = no such trial. */
  readonly live?: ((trial: Trial) => Promise<void>) | undefined;
}

function connectionText(cluster: ClusterConfig): string {
  if (cluster.authMode !== 'kubeconfig') return cluster.authMode;
  return `${cluster.kubeconfigPath}, ${cluster.context === '' ? 'its current context' : `context ${cluster.context}`}`;
}

/** Connection, namespace, rights, storage and admission of one cluster. Without `live` nothing is made: creates are dry runs. */
export async function examineCluster(plan: ClusterPlan, name: string, perform: Perform): Promise<void> {
  const { checkClusterConfig, createClusters } = await import('../kubernetes/clusters.ts');
  const { createLogger } = await import('../log.ts');
  const { config, dir } = plan.loaded;
  const usable = await perform(`kubeconfig.${name}`, async () => {
    const issues = await checkClusterConfig(name, config.clusters[name]!, dir);
    if (issues.length > 0)
      throw new WindlassError('config_invalid', `The connection of cluster "${name}" is not usable.`, { issues });
    return connectionText(config.clusters[name]!);
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
    const present = await perform(`namespace.${name}`, () => tryNamespace(cluster));
    const allowed = await examineRights(cluster, name, perform, config.installation);
    if (present) await examineProfiles(plan, cluster, perform, allowed);
  } finally {
    await clusters.close();
  }
}

async function examineProfiles(plan: ClusterPlan, cluster: Cluster, perform: Perform, allowed: boolean): Promise<void> {
  const { createTrial, examineProfile } = await import('./doctor-profile.ts');
  for (const [index, recipe] of plan.recipes.entries()) {
    const trial = await createTrial(plan.loaded, cluster, recipe);
    const taken = await examineProfile(trial, perform);
    if (index === 0 && allowed && taken) await plan.live?.(trial);
  }
}

/** Our Role cannot read namespaces: only a create tells whether ours is there. */
async function tryNamespace(cluster: Cluster): Promise<string> {
  const metadata = { name: `windlass-doctor-${randomBytes(4).toString('hex')}` };
  await cluster.create('configmaps', { apiVersion: 'v1', kind: 'ConfigMap', metadata }, { dryRun: true });
  return cluster.namespace;
}

async function examineRights(cluster: Cluster, name: string, perform: Perform, installation: string): Promise<boolean> {
  let all = true;
  const epoch = { resource: 'configmaps', name: epochName(installation), verbs: ['patch'] };
  for (const { verbs, ...target } of [...needed, epoch]) {
    const { resource, subresource } = { subresource: undefined, ...target };
    const what = subresource === undefined ? resource : `${resource}/${subresource}`;
    for (const verb of verbs) {
      const granted = await perform(`rbac.${name}.${what}.${verb}`, async () => {
        const { allowed, reason } = await cluster.can({ verb, ...target });
        if (allowed) return 'allowed';
        const why = reason ? `: ${reason}` : '';
        throw new WindlassError(
          'permission_denied',
          `The cluster does not let Windlass ${verb} ${what} in ${cluster.namespace}${why}.`,
        );
      });
      all = all && granted;
    }
  }
  return all;
}
