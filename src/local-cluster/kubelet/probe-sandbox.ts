import { existsSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { HostSupervisor } from './host-supervisor.ts';
import type { Isolation } from './isolation.ts';
import { createPathMode } from './path-mode.ts';
import { createSandbox } from './sandbox.ts';
import { endOfRead } from './supervisor-client.ts';

export interface IsolationOptions {
  readonly sandbox: 'auto' | 'none';
  readonly dataDir: string;
  /** The supervisor's program, where Pods can read it. */
  readonly supervisor: string;
  readonly host: HostSupervisor;
}

const places = ['/usr/bin/bwrap', '/usr/local/bin/bwrap', '/bin/bwrap'];

/** Runs a sandboxed process to see what works here: installed is not the same as working (containers, hardened kernels). */
export async function chooseIsolation({ sandbox, dataDir, supervisor, host }: IsolationOptions): Promise<Isolation> {
  if (sandbox === 'none') return createPathMode(host, 'asked for');
  if (process.platform !== 'linux') return createPathMode(host, `bubblewrap needs Linux, not ${process.platform}`);
  const bwrap = places.find((place) => existsSync(place));
  if (bwrap === undefined) return createPathMode(host, 'bubblewrap (bwrap) is not installed');
  const isolation = createSandbox({ bwrap, dataDir, supervisor, host });
  try {
    await tryOut(isolation, join(dataDir, 'probe'));
    return isolation;
  } catch (error) {
    await isolation.close();
    const lines = (error instanceof Error ? error.message : String(error)).split('\n');
    const telling = lines.find((line) => /^bwrap: |Error/.test(line)) ?? lines[0];
    return createPathMode(host, `bubblewrap does not work here: ${telling}`);
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
    const script = 'test "$(id -u)" = 1000 && echo ok > /run/windlass/probe && exec node --version';
    const run = await pod.start(setup, ['sh', '-c', script], { main: true, stdin: false, tty: false, memoryLimit: undefined });
    let output = '';
    run.stdout.resume();
    run.stderr.on('data', (chunk: Buffer) => {
      output += chunk;
    });
    const { exitCode, error } = await endOfRead(run);
    if (exitCode !== 0) throw new Error(error ?? (output.trim() || `exit code ${exitCode}`));
  } finally {
    await pod.close();
    rmSync(folder, { recursive: true, force: true });
  }
}
