import { randomInt } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { HostSupervisor } from './host-supervisor.ts';
import {
  type ContainerSetup,
  defaultPath,
  type Isolation,
  onTerminal,
  type PodIsolation,
  type PodPlace,
  type StartOptions,
} from './isolation.ts';
import { type PathMapping, rewritePaths, sortMappings } from './rewrite-paths.ts';
import type { SupervisorClient } from './supervisor-client.ts';

/** Without a sandbox: ordinary processes on private folders, all under the one supervisor. */
export function createPathMode(host: HostSupervisor, reason: string): Isolation {
  // Not from the beginning: two clusters on one machine share its loopback, and their agents listen at the same port.
  let counter = randomInt(addresses);
  return {
    mode: { kind: 'path', reason },
    memoryRoot: host.memoryRoot,
    openPod: async (place) => openPod(host.client, place, podAddress(counter++)),
    close: async () => {},
  };
}

/** Of 127.64.0.0/10, all of which is loopback on Linux. */
const addresses = 1 << 22;

/** Every address of 127/8 is loopback on Linux; elsewhere only the first, which all Pods then share. */
function podAddress(number: number): string {
  if (process.platform !== 'linux') return '127.0.0.1';
  return `127.${64 + ((number >> 16) & 63)}.${(number >> 8) & 255}.${number & 255}`;
}

function openPod(client: SupervisorClient, place: PodPlace, podIP: string): PodIsolation {
  const live = new Set<{ kill(): void; exit: Promise<unknown> }>();
  for (const folder of place.memoryFolders) mkdirSync(folder, { recursive: true, mode: 0o777 });
  let finish: () => void = () => {};
  const ended = new Promise<void>((resolve) => {
    finish = resolve;
  });
  return {
    podIP,
    ended,
    prepare: (setup) => {
      for (const folder of ['tmp', 'root']) mkdirSync(join(setup.root, folder), { recursive: true });
      if (setup.workingDir !== undefined) mkdirSync(rewritePaths(setup.workingDir, mappingsOf(setup)), { recursive: true });
    },
    async start(setup, argv, options) {
      const run = await client.run(request(setup, argv, options, podIP, place.hostname));
      live.add(run);
      void run.exit.then(() => live.delete(run));
      return run;
    },
    dial: (port) => client.dial([podIP], port),
    mkdir: (paths) => client.mkdir(paths),
    stat: (path) => client.stat(path),
    async close() {
      const left = [...live];
      for (const run of left) run.kill();
      await Promise.all(left.map((run) => run.exit));
      finish();
    },
  };
}

/** The container's paths that exist only for it; a working directory elsewhere lies in its private root. */
function mappingsOf(setup: ContainerSetup): PathMapping[] {
  const mounts = setup.mounts.map(({ source, target }) => ({ from: target, to: source }));
  const { workingDir } = setup;
  const inside = workingDir === undefined || mounts.some(({ from }) => workingDir === from || workingDir.startsWith(`${from}/`));
  if (!inside) mounts.push({ from: workingDir, to: join(setup.root, workingDir) });
  return sortMappings(mounts);
}

function request(setup: ContainerSetup, argv: readonly string[], options: StartOptions, podIP: string, hostname: string) {
  const mappings = mappingsOf(setup);
  const command = argv.map((word) => rewritePaths(word, mappings));
  const env: Record<string, string> = {
    PATH: pathOf(setup),
    HOME: join(setup.root, 'root'),
    HOSTNAME: hostname,
    // Marks the container's processes, so that none outlives it.
    WINDLASS_CONTAINER_ID: setup.id,
  };
  for (const [name, value] of Object.entries(setup.env))
    env[name] = value === '127.0.0.1' ? podIP : rewritePaths(value, mappings);
  return {
    group: setup.id,
    main: options.main,
    argv: options.tty ? onTerminal(command) : command,
    env,
    cwd: setup.workingDir === undefined ? setup.root : rewritePaths(setup.workingDir, mappings),
    sandboxed: false,
    stdin: options.stdin,
    memoryLimit: options.memoryLimit,
  };
}

function pathOf(setup: ContainerSetup): string {
  const { folder } = setup.toolbox;
  const own = folder === undefined ? [] : [join(folder, 'bin')];
  return [...own, dirname(process.execPath), defaultPath, '/opt/homebrew/bin'].join(':');
}
