import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { HostSupervisor } from './host-supervisor.ts';
import { defaultPath, type Isolation } from './isolation.ts';
import { createPathMode } from './path-mode.ts';
import { createSandbox, type SandboxOptions } from './sandbox.ts';
import { endOfRead, type RunExit } from './supervisor-client.ts';

export interface TrialOptions {
  readonly sandbox: 'auto' | 'none';
  readonly dataDir: string;
  /** The supervisor's program, where Pods can read it. */
  readonly supervisor: string;
}

/** How Pods can be run here, once there is a supervisor to run them. */
export type Found = (host: HostSupervisor) => Isolation;

const places = ['/usr/bin/bwrap', '/usr/local/bin/bwrap', '/bin/bwrap'];

/** Runs a sandboxed process to see what works here: installed is not the same as working (containers, hardened kernels). */
export async function findIsolation({ sandbox, ...options }: TrialOptions): Promise<Found> {
  const pathMode = (reason: string) => (host: HostSupervisor) => createPathMode(host, reason);
  if (sandbox === 'none') return pathMode('asked for');
  if (process.platform !== 'linux') return pathMode(`bubblewrap needs Linux, not ${process.platform}`);
  const bwrap = places.find((place) => existsSync(place));
  if (bwrap === undefined) return pathMode('bubblewrap (bwrap) is not installed');
  const trial = createSandbox({ ...options, bwrap, start: startHere });
  try {
    await tryOut(trial, join(options.dataDir, 'probe'));
  } catch (error) {
    const lines = (error instanceof Error ? error.message : String(error)).split('\n');
    const telling = lines.find((line) => /^bwrap: |Error/.test(line)) ?? lines[0];
    return pathMode(`bubblewrap does not work here: ${telling}`);
  } finally {
    await trial.close();
  }
  return ({ client }) => {
    const request = { main: false, env: { PATH: defaultPath }, sandboxed: false, stdin: true };
    const start: SandboxOptions['start'] = async (group, argv, cwd) => {
      const run = await client.run({ ...request, group, argv, cwd });
      return { stdout: run.stdout, stderr: run.stderr, exit: run.exit, kill: () => run.signal('SIGKILL', false) };
    };
    return createSandbox({ ...options, bwrap, start });
  };
}

/** Without the supervisor of all Pods, which starts meanwhile: a start costs as long as either of the two. */
const startHere: SandboxOptions['start'] = async (_pod, [program = '', ...args], cwd) => {
  const child = spawn(program, args, { cwd, env: { PATH: defaultPath }, stdio: 'pipe' });
  await once(child, 'spawn');
  const exit = new Promise<RunExit>((resolve) => child.once('close', (code) => resolve({ exitCode: code ?? 137 })));
  return { stdout: child.stdout, stderr: child.stderr, exit, kill: () => child.kill('SIGKILL') };
};

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
