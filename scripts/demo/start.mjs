import { existsSync } from 'node:fs';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { findProgram } from '../lib/tools.mjs';
import { namespace, writeConfig } from './config.mjs';
import { openKube } from './kube.mjs';
import { cli, createWindlass } from './windlass.mjs';

/** Starts Redis, the cluster and a worker with its dashboard; all on ports that are free, all ended by `services`. */
export async function startAll({ services, printer }) {
  const kubeconfig = join(services.folder, 'kubeconfig');
  const [redisUrl, cluster] = await Promise.all([startRedis(services), startCluster(services, kubeconfig)]);
  printer.step(`Redis at ${redisUrl}`);
  printer.step(`local Kubernetes (${cluster.mode === 'sandbox' ? 'sandboxed Pods' : 'path mode: Pods are plain processes'})`);
  if (cluster.why !== undefined) process.stderr.write(`Windlass: ${cluster.why}.\n`);
  const kube = await openKube(kubeconfig);
  await kube.createNamespace(namespace);

  const { file, env, token } = await writeConfig(services.folder, { redisUrl, kubeconfig });
  const url = await services.start('worker', process.execPath, [cli, '--config', file, 'worker', '--serve'], {
    env,
    ready: (output) => /^\{.*"url":"([^"]+)"/m.exec(output)?.[1],
  });
  printer.step('worker with dashboard');
  const windlass = createWindlass({ config: file, env, services });
  return { windlass, kube, dashboard: { url, token }, files: { config: file, kubeconfig } };
}

async function startRedis(services) {
  const program = findProgram('redis-server');
  const port = await freePort();
  const settings = ['--save', '', '--appendonly', 'no', '--maxmemory-policy', 'noeviction'];
  await services.start('redis', program, ['--port', String(port), '--bind', '127.0.0.1', '--dir', services.folder, ...settings], {
    ready: (output) => /Ready to accept connections/i.test(output) || undefined,
  });
  return `redis://127.0.0.1:${port}`;
}

async function startCluster(services, kubeconfig) {
  return services.start('cluster', process.execPath, [cli, 'local-cluster', '--kubeconfig', kubeconfig], {
    // The kubeconfig appears, by rename, once the API answers.
    ready: (output) => {
      const mode = existsSync(kubeconfig) ? /^\{.*"mode":"([^"]+)"/m.exec(output)?.[1] : undefined;
      return mode && { mode, why: /^Pods run without a sandbox.*$/m.exec(output)?.[0] };
    },
  });
}

async function freePort() {
  const server = createServer();
  await new Promise((resolve, reject) => server.once('error', reject).listen(0, '127.0.0.1', resolve));
  const { port } = server.address();
  await new Promise((resolve) => server.close(resolve));
  return port;
}
