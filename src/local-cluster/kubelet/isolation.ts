import type { Duplex } from 'node:stream';
import type { NodeRuntime } from '../types.ts';
import type { Toolbox } from './images.ts';
import type { Run } from './supervisor-client.ts';

/** A folder or file of the machine at a path of the container. */
export interface Mount {
  readonly source: string;
  readonly target: string;
  readonly readOnly: boolean;
}

/** A container ready to start: what its own process and its execs have in common. */
export interface ContainerSetup {
  /** 64 hex: the container's id. */
  readonly id: string;
  readonly toolbox: Toolbox;
  /** The folder that is its private root. */
  readonly root: string;
  readonly readOnlyRoot: boolean;
  /** Parents before children. */
  readonly mounts: readonly Mount[];
  readonly env: Readonly<Record<string, string>>;
  readonly workingDir: string | undefined;
  readonly uid: number;
  readonly gid: number;
}

export interface StartOptions {
  readonly main: boolean;
  readonly stdin: boolean;
  readonly tty: boolean;
  /** Bytes of private memory that end the container; a main process' only. */
  readonly memoryLimit: number | undefined;
}

export type FileKind = 'nothing' | 'link' | { readonly file: boolean; readonly directory: boolean; readonly size: number };

/** One Pod's network, processes and memory volumes. */
export interface PodIsolation {
  readonly podIP: string;
  /** Prepares the root folder; before the first start of this setup. */
  prepare(setup: ContainerSetup): void;
  /** Rejects with the reason when the program cannot be started. */
  start(setup: ContainerSetup, argv: readonly string[], options: StartOptions): Promise<Run>;
  dial(port: number): Promise<Duplex>;
  /** Makes folders where the Pod sees them: memory volumes exist only inside. */
  mkdir(paths: readonly string[]): Promise<void>;
  /** What lies at a path of the machine, as the Pod's supervisor sees it; 'link' when a link is on the way. */
  stat(path: string): Promise<FileKind>;
  /** Settles when all processes of the Pod have ended, on close or because the sandbox was killed. */
  readonly ended: Promise<void>;
  /** Ends every process, and with them the memory volumes. */
  close(): Promise<void>;
}

export interface PodPlace {
  readonly uid: string;
  readonly hostname: string;
  /** The Pod's own folder. */
  readonly folder: string;
  /** Folders that shall be memory. */
  readonly memoryFolders: readonly string[];
}

export interface Isolation {
  readonly mode: NodeRuntime['mode'];
  /** Where memory volumes must lie; undefined = in the Pod's folder, which the sandbox covers with memory. */
  readonly memoryRoot: string | undefined;
  openPod(place: PodPlace): Promise<PodIsolation>;
  close(): Promise<void>;
}

export const defaultPath = '/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin';

/** A command on a terminal of its own: util-linux' script is what gives us one. */
export function onTerminal(argv: readonly string[]): string[] {
  const quoted = argv.map((word) => `'${word.replaceAll("'", "'\\''")}'`).join(' ');
  return ['script', '-qefc', quoted, '/dev/null'];
}
