import { existsSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { Isolation } from './isolation.ts';
import { createPathMode } from './path-mode.ts';
import { createSandbox } from './sandbox.ts';

export interface IsolationOptions {
  readonly sandbox: 'auto' | 'none';
  readonly dataDir: string;
  /** The supervisor's program, where Pods can read it. */
  readonly supervisor: string;
}

const places = ['/usr/bin/bwrap', '/usr/local/bin/bwrap', '/bin/bwrap'];

/** Runs a sandboxed process to see what works here: installed is not the same as working (containers, hardened kernels). */
export async function chooseIsolation(options: IsolationOptions): Promise<Isolation> {
  const { dataDir, supervisor } = options;
  if (options.sandbox === 'none') return createPathMode({ dataDir, supervisor, reason: 'asked for' });
  if (process.platform !== 'linux') return createPathMode({ dataDir, supervisor, reason: `bubblewrap needs Linux, not ${process.platform}` });
  const bwrap = places.find((place) => existsSync(place));
  if (bwrap === undefined) return createPathMode({ dataDir, supervisor, reason: 'bubblewrap (bwrap) is not installed' });
  const sandbox = createSandbox({ bwrap, dataDir, supervisor });
  try {
    await tryOut(sandbox, join(dataDir, 'probe'));
    return sandbox;
  } catch (error) {
    await sandbox.close();
    const reason = `bubblewrap does not work here: ${error instanceof Error ? error.message : String(error)}`;
    return createPathMode({ dataDir, supervisor, reason });
  }
}

async function tryOut(sandbox: Isolation, folder: string): Promise<void> {
  mkdirSync(folder, { recursive: true });
  const pod = await sandbox.openPod({ uid: 'probe', hostname: 'probe', folder, memoryFolders: [join(folder, 'memory')] });
  try {
    const mounts = [{ source: join(folder, 'memory'), target: '/run/windlass', readOnly: false }];
    const setup = {
      id: 'probe',
      toolbox: { name: 'node', entry: ['node'] },
      root: join(folder, 'root'),
      readOnlyRoot: true,
      mounts,
      env: {},
      workingDir: undefined,
      uid: 1000,
      gid: 1000,
    };
    pod.prepare(setup);
    const script = 'test "$(id -u)" = 1000 && echo ok > /run/windlass/probe && exec node -e ""';
    const run = await pod.start(setup, ['sh', '-c', script], { main: true, stdin: false, tty: false });
    let output = '';
    run.stdout.resume();
    run.stderr.on('data', (chunk: Buffer) => {
      output += chunk;
    });
    const { exitCode, error } = await run.exit;
    if (exitCode !== 0) throw new Error(error ?? (output.trim() || `exit code ${exitCode}`));
  } finally {
    await pod.close();
    rmSync(folder, { recursive: true, force: true });
  }
}
