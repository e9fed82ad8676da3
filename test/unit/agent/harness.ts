import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, realpathSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { bootLine, bootstrapCommand } from '../../../src/agent/boot.ts';
import { type AgentClient, createAgentClient } from '../../../src/agent/client.ts';
import { agentConfigMap, type BootstrapInput, bootstrapInput, bootstrapProof } from '../../../src/agent/delivery.ts';

export const nonce = 'n'.repeat(64);
export const input: BootstrapInput = { runtimeEnv: {}, authEnv: {}, secretNames: [], nonce };

export interface Ended {
  readonly code: number | null;
  readonly signal: string | null;
  readonly stdout: string;
  readonly stderr: string;
}

/** One Pod's folders and port, without a cluster: the real bundle runs in real processes. */
export class Pod {
  readonly root = realpathSync(mkdtempSync(join(tmpdir(), 'windlass-agent-')));
  readonly run = join(this.root, 'run');
  readonly opt = join(this.root, 'opt');
  readonly agentDir = join(this.root, 'agent');
  readonly workspace = join(this.root, 'workspace');
  readonly #children: ChildProcess[] = [];
  readonly port: number;
  readonly #env: Record<string, string>;

  private constructor(port: number, env: Record<string, string>) {
    this.port = port;
    this.#env = env;
    for (const folder of [this.run, this.opt, this.agentDir, this.workspace]) mkdirSync(folder);
    writeFileSync(join(this.agentDir, 'agent.mjs'), agentConfigMap('test').data['agent.mjs']);
  }

  static async create(env: Record<string, string> = {}): Promise<Pod> {
    return new Pod(await freePort(), env);
  }

  spawn(command: readonly string[]): ChildProcess {
    const child = spawn(command[0]!, command.slice(1), {
      cwd: this.workspace,
      env: {
        PATH: process.env.PATH,
        WINDLASS_RUN_DIR: this.run,
        WINDLASS_OPT_DIR: this.opt,
        WINDLASS_AGENT_DIR: this.agentDir,
        WINDLASS_WORKSPACE: this.workspace,
        WINDLASS_AGENT_HOST: '127.0.0.1',
        WINDLASS_AGENT_PORT: String(this.port),
        ...this.#env,
      },
    });
    this.#children.push(child);
    return child;
  }

  async exec(command: readonly string[], stdin?: Uint8Array, options: { keepStdinOpen?: boolean } = {}): Promise<Ended> {
    const child = this.spawn(command);
    const ended = outcome(child);
    // A refusal may come before all was read.
    child.stdin!.on('error', () => child.stdin!.destroy());
    if (stdin) child.stdin!.write(stdin);
    if (!options.keepStdinOpen) child.stdin!.end();
    return ended;
  }

  async bootstrap(values: Partial<BootstrapInput> = {}): Promise<void> {
    const whole = { ...input, ...values };
    const { stdout, stderr } = await this.exec(bootstrapCommand(), bootstrapInput(whole), { keepStdinOpen: true });
    if (!stdout.includes(bootstrapProof(whole))) throw new Error(`bootstrap failed: ${stdout}${stderr}`);
  }

  entry(): ChildProcess {
    return this.spawn(bootLine({ protocol: 'windlass', sha256: agentConfigMap('test').sha256 }));
  }

  /** Started, bootstrapped and serving. */
  async serve(values: Partial<BootstrapInput> = {}): Promise<ChildProcess> {
    await this.bootstrap(values);
    // The boot line removes it too, but not before we look.
    rmSync(join(this.run, 'prepared'), { force: true });
    const child = this.entry();
    await Promise.race([
      until(() => existsSync(join(this.run, 'prepared')), 'the agent to serve'),
      outcome(child).then((ended) => Promise.reject(new Error(`the agent ended: ${JSON.stringify(ended)}`))),
    ]);
    return child;
  }

  client(token?: string, instanceId = 'one'): AgentClient {
    return createAgentClient({ host: '127.0.0.1', port: this.port, instanceId, ...(token === undefined ? {} : { token }) });
  }

  /** Serving, with a token and the instance `one`. */
  async ready(values: Partial<BootstrapInput> = {}): Promise<AgentClient> {
    await this.serve(values);
    const client = this.client(await this.client().handshake({ nonce, clientKey: 'key' }));
    await client.ensureInstance({ id: 'one', workspace_path: '/workspace' });
    return client;
  }

  async dispose(): Promise<void> {
    for (const child of this.#children) {
      if (child.exitCode !== null || child.signalCode !== null) continue;
      const exit = once(child, 'exit');
      child.kill('SIGTERM');
      const timer = setTimeout(() => child.kill('SIGKILL'), 8000);
      await exit;
      clearTimeout(timer);
    }
    rmSync(this.root, { recursive: true, force: true });
  }
}

export async function outcome(child: ChildProcess): Promise<Ended> {
  let [stdout, stderr] = ['', ''];
  child.stdout!.on('data', (chunk) => {
    stdout += chunk;
  });
  child.stderr!.on('data', (chunk) => {
    stderr += chunk;
  });
  const [code, signal] = await once(child, 'close');
  return { code, signal, stdout, stderr };
}

export async function until(condition: () => boolean | Promise<boolean>, what: string, ms = 15_000): Promise<void> {
  const deadline = Date.now() + ms;
  while (!(await condition())) {
    if (Date.now() > deadline) throw new Error(`waited too long for ${what}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

export async function freePort(): Promise<number> {
  const server = createServer();
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  server.close();
  await once(server, 'close');
  return port;
}

/** Collects what is written to it. */
export function sink(): Writable & { text(): string } {
  const chunks: Buffer[] = [];
  const stream = new Writable({
    write(chunk: Buffer, _encoding, done) {
      chunks.push(chunk);
      done();
    },
  });
  return Object.assign(stream, { text: () => Buffer.concat(chunks).toString() });
}

export function alive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
    return false;
  }
}
