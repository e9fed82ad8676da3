import { readFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { KubeConfig } from '@kubernetes/client-node';
import type { ClusterConfig } from '../config/schema.ts';
import { type Issue, WindlassError } from '../errors.ts';
import { sanitize } from './sanitize.ts';

/** The library costs a second and 80 MB: it is loaded when the first cluster is really used. */
let library: Promise<typeof import('@kubernetes/client-node')> | undefined;
function clientNode(): Promise<typeof import('@kubernetes/client-node')> {
  library ??= import('@kubernetes/client-node');
  return library;
}

/**
 * The connection's KubeConfig, freshly read, so that rotated files count. Throws `config_invalid` with one issue whose
 * path is `clusters.<name>.kubeconfigPath`, `.context` or `.authMode`.
 */
export async function loadKubeConfig(name: string, config: ClusterConfig, dir: string): Promise<KubeConfig> {
  const { KubeConfig } = await clientNode();
  const kubeConfig = new KubeConfig();
  if (config.authMode === 'in_cluster') await loadInCluster(name, kubeConfig);
  else await loadFile(name, kubeConfig, resolve(dir, config.kubeconfigPath), config.context);
  const server = kubeConfig.getCurrentCluster()?.server ?? '';
  if (!URL.canParse(server) || !/^https?:$/.test(new URL(server).protocol))
    throw invalid(name, 'kubeconfigPath', `the cluster's server "${sanitize(server, 200)}" is no http(s) address`);
  return kubeConfig;
}

async function loadFile(name: string, kubeConfig: KubeConfig, path: string, context: string): Promise<void> {
  const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
    throw invalid(
      name,
      'kubeconfigPath',
      `"${path}" cannot be read (${error.code ?? 'error'}): every call to this cluster would fail`,
      error,
    );
  });
  try {
    kubeConfig.loadFromString(text);
    kubeConfig.makePathsAbsolute(resolve(path, '..'));
  } catch (error) {
    throw invalid(name, 'kubeconfigPath', `"${path}" is no kubeconfig: ${sanitize((error as Error).message, 300)}`, error);
  }
  if (context !== '') kubeConfig.setCurrentContext(context);
  const wanted = kubeConfig.getCurrentContext();
  const found = kubeConfig.getContextObject(wanted ?? '');
  if (!found) {
    const known = kubeConfig.getContexts().map((entry) => entry.name);
    const list = known.length === 0 ? 'it has none' : `it has ${known.join(', ')}`;
    if (!wanted) throw invalid(name, 'context', `"${path}" has no current context, name one: ${list}`);
    throw invalid(name, 'context', `"${path}" has no context "${wanted}": ${list}`);
  }
  if (!kubeConfig.getCurrentCluster())
    throw invalid(name, 'context', `context "${wanted}" names the cluster "${found.cluster}", which the file does not have`);
  await checkFiles(name, kubeConfig);
}

async function checkFiles(name: string, kubeConfig: KubeConfig): Promise<void> {
  const user = kubeConfig.getCurrentUser();
  for (const file of [kubeConfig.getCurrentCluster()?.caFile, user?.certFile, user?.keyFile]) {
    if (!file) continue;
    await readFile(file).catch((error: NodeJS.ErrnoException) => {
      throw invalid(name, 'kubeconfigPath', `it names "${file}", which cannot be read (${error.code ?? 'error'})`, error);
    });
  }
}

async function loadInCluster(name: string, kubeConfig: KubeConfig): Promise<void> {
  kubeConfig.loadFromCluster();
  const cluster = kubeConfig.getCurrentCluster();
  const provider = kubeConfig.getCurrentUser()?.authProvider as { config?: { tokenFile?: string } } | undefined;
  // Outside a Pod the library builds "https://undefined:undefined" and says nothing.
  const outside = cluster === null || cluster.server.includes('undefined');
  const files = [cluster?.caFile, provider?.config?.tokenFile];
  for (const file of outside ? [] : files) {
    await readFile(file ?? '').catch((error: NodeJS.ErrnoException) => {
      throw invalid(name, 'authMode', `the service account file "${file}" cannot be read (${error.code ?? 'error'})`, error);
    });
  }
  if (outside) throw invalid(name, 'authMode', 'in_cluster works only inside a Pod: use kubeconfig here');
}

function invalid(name: string, field: string, message: string, cause?: unknown): WindlassError {
  const issue: Issue = { path: `clusters.${name}.${field}`, message };
  return new WindlassError('config_invalid', `${issue.path}: ${message}`, {
    issues: [issue],
    ...(cause === undefined ? {} : { cause }),
  });
}
