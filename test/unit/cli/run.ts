import { type ChildProcess, spawn } from 'node:child_process';
import { join, resolve } from 'node:path';
import { vi } from 'vitest';
import { run } from '../../../src/cli/run.ts';

const root = resolve(import.meta.dirname, '../../..');

export interface Finished {
  readonly exitCode: number | null;
  readonly stdout: string;
  readonly stderr: string;
  /** stdout as the one JSON document that it is. */
  json(): Record<string, unknown> & { error?: { code: string; issues: { path: string; message: string }[]; hint: string } };
  /** stdout as one JSON document a line. */
  lines(): Record<string, unknown>[];
}

interface RunOptions {
  readonly cwd?: string;
  readonly env?: Readonly<Record<string, string>>;
  readonly stdin?: string;
  /** Not from dist/, where its packages are in a few files: to see which it loads. */
  readonly fromSources?: boolean;
}

const shipped = [join(root, 'dist/cli/main.js')];
const sources = ['--import', join(root, 'node_modules/tsx/dist/esm/index.mjs'), join(root, 'src/cli/main.ts')];

/** Starts the command as a user does, from dist/; nothing of the caller's WINDLASS_ variables leaks in. */
export function start(args: readonly string[], options: RunOptions = {}): ChildProcess {
  const inherited = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => !/^(WINDLASS|KUBECONFIG|NO_COLOR)/.test(name)),
  );
  return spawn(process.execPath, [...(options.fromSources ? sources : shipped), ...args], {
    cwd: options.cwd ?? root,
    env: { ...inherited, ...options.env },
    stdio: ['pipe', 'pipe', 'pipe'],
  });
}

export async function windlass(args: readonly string[], options: RunOptions = {}): Promise<Finished> {
  const child = start(args, options);
  child.stdin?.end(options.stdin ?? '');
  const [stdout, stderr, exitCode] = await Promise.all([
    text(child.stdout!),
    text(child.stderr!),
    new Promise<number | null>((done, fail) => child.once('error', fail).once('close', done)),
  ]);
  return finished(exitCode, stdout, stderr);
}

function finished(exitCode: number | null, stdout: string, stderr: string): Finished {
  return {
    exitCode,
    stdout,
    stderr,
    json: () => JSON.parse(stdout),
    lines: () =>
      stdout
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line)),
  };
}

async function text(stream: NodeJS.ReadableStream): Promise<string> {
  let all = '';
  stream.setEncoding('utf8');
  for await (const chunk of stream) all += chunk;
  return all;
}

/** The same command line without a process of its own; `env` is laid over this one's. */
export async function inProcess(args: readonly string[], env: Readonly<Record<string, string>> = {}): Promise<Finished> {
  const written = { stdout: '', stderr: '' };
  const spies = (['stdout', 'stderr'] as const).map((stream) =>
    vi.spyOn(process[stream], 'write').mockImplementation((chunk) => {
      written[stream] += String(chunk);
      return true;
    }),
  );
  for (const [name, value] of Object.entries(env)) vi.stubEnv(name, value);
  try {
    return finished(await run(args), written.stdout, written.stderr);
  } finally {
    process.exitCode = undefined;
    for (const spy of spies) spy.mockRestore();
    vi.unstubAllEnvs();
  }
}
