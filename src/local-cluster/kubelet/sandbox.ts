import { type ChildProcess, spawn } from 'node:child_process';
import { closeSync, mkdirSync, openSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import { containerArguments, initScript, podArguments } from './bwrap.ts';
import type { Toolbox } from './images.ts';
import { type Isolation, onTerminal, type PodIsolation, type PodPlace } from './isolation.ts';
import { layOutRoot } from './sandbox-root.ts';
import { SupervisorClient } from './supervisor-client.ts';
import { supervisorReady } from './supervisor-process.ts';
import { type ToolboxView, viewToolbox } from './toolbox.ts';

export interface SandboxOptions {
  readonly bwrap: string;
  readonly dataDir: string;
  readonly supervisor: string;
}

interface Context extends SandboxOptions {
  readonly view: (toolbox: Toolbox) => ToolboxView;
}

/** bubblewrap: each Pod a sandbox with its own network and pids, each container a root of its own in it. */
export function createSandbox(options: SandboxOptions): Isolation {
  const sockets = join(options.dataDir, 's');
  mkdirSync(sockets, { recursive: true });
  // A unix socket's path holds 107 bytes: through the open folder it is short wherever the data lie.
  const folder = openSync(sockets, 'r');
  const pods = new Set<PodIsolation>();
  const views = new Map<string | undefined, ToolboxView>();
  const view = (toolbox: Toolbox) => {
    const known = views.get(toolbox.folder) ?? viewToolbox(toolbox, process.execPath);
    views.set(toolbox.folder, known);
    return known;
  };
  const context: Context = { ...options, view };
  let counter = 0;
  return {
    mode: { kind: 'sandbox', reason: '' },
    async openPod(place) {
      const number = ++counter;
      const name = `pod${number}`;
      const socket = { listen: name, connect: `/proc/self/fd/${folder}/${name}`, file: join(sockets, name) };
      const pod = await openPod(context, place, socket, sockets, podAddress(number));
      pods.add(pod);
      void pod.ended.then(() => pods.delete(pod));
      return pod;
    },
    async close() {
      await Promise.all([...pods].map((pod) => pod.close()));
      closeSync(folder);
    },
  };
}

/** 10.244.x.y, as a cluster's Pod network usually has it; only a name here, since each Pod has nothing but its loopback. */
function podAddress(number: number): string {
  return `10.244.${(number >> 8) & 255}.${number & 255}`;
}

interface Socket {
  readonly listen: string;
  readonly connect: string;
  readonly file: string;
}

async function openPod(options: Context, place: PodPlace, socket: Socket, sockets: string, podIP: string): Promise<PodIsolation> {
  const shm = join(place.folder, 'shm');
  const memoryFolders = [...place.memoryFolders, shm];
  for (const folder of memoryFolders) mkdirSync(folder, { recursive: true });
  const config = JSON.stringify({ socket: socket.listen, paths: false, open: memoryFolders });
  const command = ['/bin/sh', '-c', initScript, 'init', process.execPath, options.supervisor, config];
  const child = spawn(options.bwrap, podArguments({ hostname: place.hostname, memoryFolders, command }), {
    cwd: sockets,
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  await supervisorReady(child);
  return sandboxedPod(options, { place, podIP, shm, child, ended, client: new SupervisorClient(socket.connect), socketFile: socket.file });
}

interface OpenPod {
  readonly place: PodPlace;
  readonly podIP: string;
  readonly shm: string;
  readonly child: ChildProcess;
  readonly ended: Promise<void>;
  readonly client: SupervisorClient;
  readonly socketFile: string;
}

function sandboxedPod(options: Context, pod: OpenPod): PodIsolation {
  const { place, podIP, client } = pod;
  const hosts = `127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n${podIP}\t${place.hostname}\n`;
  return {
    podIP,
    ended: pod.ended,
    prepare: (setup) => layOutRoot(setup, options.view(setup.toolbox), hosts, place.hostname),
    start(setup, argv, { main, stdin, tty }) {
      const view = options.view(setup.toolbox);
      const env = { PATH: view.path, HOME: homeOf(setup.uid), HOSTNAME: place.hostname, ...setup.env };
      const inside = containerArguments(setup, view, pod.shm, tty ? onTerminal(argv) : argv);
      return client.run({ group: setup.id, main, argv: [options.bwrap, ...inside], env, sandboxed: true, stdin });
    },
    dial: (port) => client.dial(['127.0.0.1', '::1'], port),
    mkdir: (paths) => client.mkdir(paths),
    async close() {
      // Killing bwrap kills PID 1 of the Pod, and the kernel everything with it.
      pod.child.kill('SIGKILL');
      await pod.ended;
      rmSync(pod.socketFile, { force: true });
    },
  };
}

function homeOf(uid: number): string {
  if (uid === 0) return '/root';
  return uid === 1000 ? '/home/node' : '/';
}
