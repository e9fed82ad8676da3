import { closeSync, mkdirSync, openSync, rmSync } from 'node:fs';
import { availableParallelism } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { containerArguments, initScript, podArguments } from './bwrap.ts';
import type { Toolbox } from './images.ts';
import { type Isolation, onTerminal, type PodIsolation, type PodPlace } from './isolation.ts';
import { layOutRoot } from './sandbox-root.ts';
import { type RunExit, SupervisorClient } from './supervisor-client.ts';
import { limit } from './timing.ts';
import { type ToolboxView, viewToolbox } from './toolbox.ts';

/** The process that is the sandbox of a Pod: it ends with whoever started it. */
export interface SandboxProcess {
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Never rejects. */
  readonly exit: Promise<RunExit>;
  kill(): void;
}

export interface SandboxOptions {
  readonly bwrap: string;
  readonly dataDir: string;
  /** The supervisor's program. */
  readonly supervisor: string;
  /** Rejects with the reason when the program cannot be started. `pod` is its uid. */
  readonly start: (pod: string, argv: readonly string[], cwd: string) => Promise<SandboxProcess>;
}

interface Context extends SandboxOptions {
  readonly view: (toolbox: Toolbox) => ToolboxView;
  /** The folder of the Pods' sockets. */
  readonly sockets: string;
  /** The same, by a path that is always short: a unix socket's path holds 107 bytes. */
  readonly shortSockets: string;
}

/** bubblewrap: each Pod a sandbox with its own network and pids, each container a root of its own in it. */
export function createSandbox(options: SandboxOptions): Isolation {
  const sockets = join(options.dataDir, 's');
  mkdirSync(sockets, { recursive: true });
  const folder = openSync(sockets, 'r');
  const views = new Map<string | undefined, ToolboxView>();
  const view = (toolbox: Toolbox) => {
    const known = views.get(toolbox.folder) ?? viewToolbox(toolbox, process.execPath);
    views.set(toolbox.folder, known);
    return known;
  };
  const context: Context = { ...options, view, sockets, shortSockets: `/proc/self/fd/${folder}` };
  // Hundreds of Pods at once would only keep each other from starting.
  const inTurn = limit(availableParallelism() * 2);
  let counter = 0;
  return {
    mode: { kind: 'sandbox', reason: '' },
    memoryRoot: undefined,
    openPod: (place) => inTurn(() => openPod(context, place, ++counter)),
    close: async () => closeSync(folder),
  };
}

/** 10.244.x.y, as a cluster's Pod network usually has it; only a name here, since each Pod has nothing but its loopback. */
function podAddress(number: number): string {
  return `10.244.${(number >> 8) & 255}.${number & 255}`;
}

async function openPod(context: Context, place: PodPlace, number: number): Promise<PodIsolation> {
  const shm = join(place.folder, 'shm');
  const memoryFolders = [...place.memoryFolders, shm];
  for (const folder of memoryFolders) mkdirSync(folder, { recursive: true });
  const socket = `pod${number}`;
  const config = JSON.stringify({ socket, paths: false, pipes: join(place.folder, 'pipes'), open: memoryFolders });
  const command = ['/bin/sh', '-c', initScript, 'init', process.execPath, context.supervisor, config];
  const argv = [context.bwrap, ...podArguments({ hostname: place.hostname, memoryFolders, command })];
  const sandbox = await context.start(place.uid, argv, context.sockets);
  await supervisorReady(sandbox);
  return sandboxedPod(context, { place, shm, socket, sandbox, podIP: podAddress(number) });
}

/** Settles when the Pod's supervisor listens; rejects with what it (or bwrap) wrote when it ends before. */
function supervisorReady(sandbox: SandboxProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    let complaint = '';
    sandbox.stderr.on('data', (chunk: Buffer) => {
      if (complaint.length < 4096) complaint += chunk;
    });
    sandbox.stdout.on('data', () => resolve());
    void sandbox.exit.then(({ exitCode }) => reject(new Error(complaint.trim() || `the sandbox ended with code ${exitCode}`)));
  });
}

interface OpenPod {
  readonly place: PodPlace;
  readonly shm: string;
  readonly socket: string;
  readonly sandbox: SandboxProcess;
  readonly podIP: string;
}

function sandboxedPod(context: Context, { place, shm, socket, sandbox, podIP }: OpenPod): PodIsolation {
  const client = new SupervisorClient(join(context.shortSockets, socket));
  const hosts = `127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n${podIP}\t${place.hostname}\n`;
  const ended = sandbox.exit.then(() => rmSync(join(context.sockets, socket), { force: true }));
  return {
    podIP,
    ended,
    prepare: (setup) => layOutRoot(setup, context.view(setup.toolbox), hosts, place.hostname),
    start(setup, argv, { main, stdin, tty, memoryLimit }) {
      const view = context.view(setup.toolbox);
      const env = { PATH: view.path, HOME: homeOf(setup.uid), HOSTNAME: place.hostname, ...setup.env };
      const inside = containerArguments(setup, view, shm, tty ? onTerminal(argv) : argv);
      return client.run({ group: setup.id, main, argv: [context.bwrap, ...inside], env, sandboxed: true, stdin, memoryLimit });
    },
    dial: (port) => client.dial(['127.0.0.1', '::1'], port),
    mkdir: (paths) => client.mkdir(paths),
    stat: (path) => client.stat(path),
    async close() {
      // Killing bwrap kills PID 1 of the Pod, and the kernel everything with it.
      sandbox.kill();
      await ended;
    },
  };
}

function homeOf(uid: number): string {
  if (uid === 0) return '/root';
  return uid === 1000 ? '/home/node' : '/';
}
