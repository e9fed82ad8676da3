import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { statSync } from 'node:fs';
import { constants } from 'node:os';
import type { Readable, Writable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { closeChildEnds, makePipes, type Pipes } from './pipes.ts';

export interface StartOptions {
  readonly cwd: string;
  readonly env: Readonly<Record<string, string>>;
  readonly stdin: boolean;
}

export interface Ended {
  /** As a shell gives it: 128+n for signal n. */
  readonly exitCode: number;
  readonly signal: string | null;
}

/** A command that runs as the leader of its own process group. */
export interface Running {
  readonly pid: number;
  readonly stdin: Writable | undefined;
  readonly stdout: Readable;
  readonly stderr: Readable;
  /** Settles when the leader ends; its output may still be on the way. */
  readonly ended: Promise<Ended>;
  /** To the whole group; a group that is gone already is no error. */
  signal(name: NodeJS.Signals): void;
  /** SIGTERM, then SIGKILL to what is left of the group after the grace. */
  terminate(): Promise<void>;
}

/** The command could not be started: 127 not found, 126 not executable, as a shell says it. */
export class StartFailure extends Error {
  readonly exitCode: 126 | 127;

  constructor(exitCode: 126 | 127, message: string) {
    super(message);
    this.exitCode = exitCode;
  }
}

const killAfterMs = 3000;

/** Everything the agent started, so that nothing outlives it where no Pod ends with it (path mode of the local cluster). */
export class Processes {
  readonly #pipeFolder: string;
  readonly #groups = new Set<Running>();
  readonly #cleaner: NodeJS.Timeout;
  #stopping = false;

  constructor(pipeFolder: string) {
    this.#pipeFolder = pipeFolder;
    // A group lives on in what its leader left in the background. An empty one must be dropped soon: its id is given out again.
    this.#cleaner = setInterval(() => this.#dropEmptyGroups(), 1000).unref();
  }

  async start(argv: readonly string[], options: StartOptions): Promise<Running> {
    if (!isFolder(options.cwd)) throw new StartFailure(126, `windlass: ${options.cwd}: no such directory`);
    const pipes = await makePipes(this.#pipeFolder, options.stdin);
    try {
      if (this.#stopping) throw new StartFailure(126, 'windlass: the workspace is stopping');
      const child = await spawned(argv, options, pipes);
      const streams = pipes ?? { stdin: child.stdin ?? undefined, stdout: child.stdout!, stderr: child.stderr! };
      const running = new Group(child, child.pid!, streams);
      this.#groups.add(running);
      return running;
    } catch (error) {
      for (const stream of [pipes?.stdin, pipes?.stdout, pipes?.stderr]) stream?.destroy();
      throw error;
    } finally {
      if (pipes) closeChildEnds(pipes);
    }
  }

  get stopping(): boolean {
    return this.#stopping;
  }

  async stopAll(): Promise<void> {
    this.#stopping = true;
    clearInterval(this.#cleaner);
    this.#dropEmptyGroups();
    await Promise.all([...this.#groups].map((group) => group.terminate()));
  }

  #dropEmptyGroups(): void {
    for (const group of this.#groups) if (!groupLives(group.pid)) this.#groups.delete(group);
  }
}

async function spawned(argv: readonly string[], options: StartOptions, pipes: Pipes | undefined): Promise<ChildProcess> {
  try {
    const child = spawn(argv[0]!, argv.slice(1), {
      cwd: options.cwd,
      env: { ...options.env, PWD: options.cwd },
      detached: true,
      stdio: pipes ? [...pipes.childFds] : [options.stdin ? 'pipe' : 'ignore', 'pipe', 'pipe'],
    });
    // Some failures are thrown, others arrive as an event.
    if (child.pid === undefined) throw (await once(child, 'error'))[0];
    return child;
  } catch (error) {
    throw startFailure(argv[0]!, error as NodeJS.ErrnoException);
  }
}

class Group implements Running {
  readonly pid: number;
  readonly stdin: Writable | undefined;
  readonly stdout: Readable;
  readonly stderr: Readable;
  readonly ended: Promise<Ended>;

  constructor(child: ChildProcess, pid: number, streams: Pick<Running, 'stdin' | 'stdout' | 'stderr'>) {
    this.pid = pid;
    this.stdin = streams.stdin;
    this.stdout = streams.stdout;
    this.stderr = streams.stderr;
    // A command may stop reading at any time: what it left unread is nobody's error.
    this.stdin?.on('error', () => this.stdin?.destroy());
    this.ended = new Promise((resolve) => {
      child.once('exit', (code, signal) => {
        resolve({ exitCode: code ?? 128 + (signal === null ? 0 : constants.signals[signal]), signal });
      });
    });
  }

  signal(name: NodeJS.Signals): void {
    try {
      process.kill(-this.pid, name);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    }
  }

  async terminate(): Promise<void> {
    this.signal('SIGTERM');
    const deadline = Date.now() + killAfterMs;
    while (groupLives(this.pid)) {
      if (Date.now() >= deadline) return this.signal('SIGKILL');
      await delay(25);
    }
  }
}

function groupLives(pid: number): boolean {
  try {
    process.kill(-pid, 0);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false;
    // EPERM: somebody in it changed its user, so it lives.
    return true;
  }
}

function isFolder(path: string): boolean {
  return statSync(path, { throwIfNoEntry: false })?.isDirectory() ?? false;
}

function startFailure(program: string, error: NodeJS.ErrnoException): StartFailure {
  if (error.code === 'ENOENT' || error.code === 'ENOTDIR') return new StartFailure(127, `windlass: ${program}: not found`);
  return new StartFailure(126, `windlass: ${program}: cannot be executed (${error.code ?? error.message})`);
}
