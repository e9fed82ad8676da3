import { join } from 'node:path';
import { isDeepStrictEqual } from 'node:util';
import type { CreateInstanceRequest, InstanceInfo } from '../protocol.ts';
import { readJsonIfThere, writeAtomic } from './files.ts';
import type { Identity } from './identity.ts';
import { captureMasked } from './output.ts';
import { type Processes, type Running, StartFailure } from './processes.ts';
import { inWorkspace, type Settings } from './settings.ts';

type CommandState = NonNullable<InstanceInfo['command']>;

/** One workspace instance as the agent knows it. */
export class Instance {
  readonly request: CreateInstanceRequest;
  readonly createdAt: string;
  command: CommandState | undefined;
  lastActivityAt = new Date().toISOString();
  /** What runs for it now: its command and its execs, ended with it. */
  readonly running = new Set<Running>();

  constructor(request: CreateInstanceRequest, createdAt: string, command?: CommandState) {
    this.request = request;
    this.createdAt = createdAt;
    this.command = command;
  }

  touch(): void {
    this.lastActivityAt = new Date().toISOString();
  }
}

interface Kept {
  readonly request: CreateInstanceRequest;
  readonly createdAt: string;
  readonly command?: CommandState;
}

export interface CreateResult {
  readonly status: 200 | 201 | 409;
  readonly instance: Instance;
  /** For 409: the fields that differ. */
  readonly differs: readonly string[];
}

/**
 * The instances of this Pod, kept on the run volume: a container restart must not run an instance's command a second
 * time, and must be able to say that the first run ended with the container.
 */
export class Instances {
  readonly #byId = new Map<string, Instance>();
  readonly #path: string;
  readonly #settings: Settings;
  readonly #identity: Identity;
  readonly #processes: Processes;

  constructor(settings: Settings, identity: Identity, processes: Processes) {
    this.#settings = settings;
    this.#identity = identity;
    this.#processes = processes;
    this.#path = join(settings.runDir, 'instances.json');
    const kept = (readJsonIfThere(this.#path) ?? []) as Kept[];
    for (const { request, createdAt, command } of kept) {
      const killed = command?.exitCode === null ? { ...command, exitCode: 137, signal: 'SIGKILL' } : command;
      this.#byId.set(request.id, new Instance(request, createdAt, killed));
    }
  }

  get(id: string): Instance | undefined {
    return this.#byId.get(id);
  }

  all(): Instance[] {
    return [...this.#byId.values()];
  }

  async create(request: CreateInstanceRequest): Promise<CreateResult> {
    const existing = this.#byId.get(request.id);
    if (existing) {
      const differs = differences(existing.request, request);
      return { status: differs.length === 0 ? 200 : 409, instance: existing, differs };
    }
    const instance = new Instance(request, new Date().toISOString());
    this.#byId.set(request.id, instance);
    // Kept as started before it starts: a crash in between loses the command rather than running it twice.
    if (request.command) instance.command = { pid: 0, exitCode: null, signal: null };
    this.#save();
    if (request.command) await this.#startCommand(instance, request.command);
    return { status: 201, instance, differs: [] };
  }

  async remove(id: string): Promise<boolean> {
    const instance = this.#byId.get(id);
    if (!instance) return false;
    await Promise.all([...instance.running].map((running) => running.terminate()));
    this.#byId.delete(id);
    this.#save();
    return true;
  }

  workspaceOf(instance: Instance): string {
    return inWorkspace(this.#settings, instance.request.workspace_path);
  }

  /** HOME stays ours whatever the instance asks; an exec may say otherwise for itself. */
  envOf(instance: Instance, extra: Readonly<Record<string, string>> = {}): Record<string, string> {
    const { childEnv } = this.#identity;
    return { ...childEnv, ...instance.request.env, HOME: childEnv.HOME!, ...extra };
  }

  async #startCommand(instance: Instance, argv: readonly string[]): Promise<void> {
    try {
      const options = { cwd: this.workspaceOf(instance), env: this.envOf(instance), stdin: false };
      const running = await this.#processes.start(argv, options);
      instance.running.add(running);
      instance.command = { pid: running.pid, exitCode: null, signal: null };
      this.#save();
      this.#follow(instance, running);
    } catch (error) {
      if (!(error instanceof StartFailure)) throw error;
      process.stderr.write(`${error.message}\n`);
      instance.command = { pid: 0, exitCode: error.exitCode, signal: null };
      this.#save();
    }
  }

  #follow(instance: Instance, running: Running): void {
    const to = (target: NodeJS.WritableStream) => (piece: Buffer) => {
      instance.touch();
      target.write(piece);
    };
    const { mask } = this.#identity;
    void captureMasked(running.stdout, mask, running.ended, to(process.stdout));
    void captureMasked(running.stderr, mask, running.ended, to(process.stderr));
    void running.ended.then(({ exitCode, signal }) => {
      instance.running.delete(running);
      instance.touch();
      instance.command = { pid: running.pid, exitCode, signal };
      this.#save();
    });
  }

  #save(): void {
    const kept = this.all().map(({ request, createdAt, command }): Kept => ({ request, createdAt, ...(command && { command }) }));
    writeAtomic(this.#path, JSON.stringify(kept), 0o600);
  }
}

function differences(a: CreateInstanceRequest, b: CreateInstanceRequest): string[] {
  const fields = ['workspace_path', 'env', 'command'] as const;
  return fields.filter((field) => !isDeepStrictEqual(a[field], b[field]));
}
