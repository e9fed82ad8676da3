import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect } from 'vitest';
import { startLocalCluster } from '../../src/local-cluster/start.ts';
import type { LocalCluster, LocalClusterOptions } from '../../src/local-cluster/types.ts';
import { root } from './root.ts';

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

/** The embedded cluster as `windlass local-cluster`, a process of its own: for tests that measure or block this one. */
export async function startClusterProcess(): Promise<{ readonly kubeconfig: string; close(): Promise<void> }> {
  const dir = await mkdtemp(join(tmpdir(), 'windlass-cluster-'));
  const kubeconfig = join(dir, 'kubeconfig');
  const child: ChildProcess = spawn(
    process.execPath,
    [join(root, 'dist/cli/main.js'), '--json', 'local-cluster', '--kubeconfig', kubeconfig],
    { cwd: dir, stdio: ['ignore', 'pipe', 'inherit'] },
  );
  const ended = once(child, 'exit');
  const [first] = await Promise.race([
    once(child.stdout!, 'data'),
    ended.then(([code]) => Promise.reject(new Error(`the local cluster ended with ${code}`))),
  ]);
  expect(JSON.parse(String(first))).toMatchObject({ kubeconfig });
  return {
    kubeconfig,
    async close() {
      child.kill('SIGTERM');
      await ended;
      await rm(dir, { recursive: true, force: true });
    },
  };
}
