import { type Readable, Writable } from 'node:stream';
import { StringDecoder } from 'node:string_decoder';
import type { Command } from 'commander';
import { asWindlassError } from '../errors.ts';
import type { Operator } from '../main.ts';
import { type Context, checkedId, usage, verb, withHelpOf } from './context.ts';
import { explainLoss } from './exec-loss.ts';
import { interruptible } from './interrupt.ts';
import { showError } from './output.ts';
import { openPod } from './pod.ts';
import { collect, pair, seconds } from './values.ts';

interface ExecOptions {
  readonly stdin?: boolean;
  readonly tty?: boolean;
  readonly env?: readonly string[];
  readonly workdir?: string;
  readonly timeout?: string;
}
interface Request {
  readonly instanceId: string;
  readonly command: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly workdir?: string;
  readonly timeoutMs?: number;
  readonly stdin: boolean;
  readonly tty: boolean;
}
interface Streams {
  readonly stdin?: Readable;
  readonly stdout: Writable;
  readonly stderr: Writable;
  readonly signal: AbortSignal;
}

export function exec(program: Command): void {
  const command = program
    .command('exec <id> [command...]')
    .usage('[options] <id> -- <command...>')
    .description("run a command in an instance; the exit code is the command's, or 125 when Windlass failed")
    .option('-i, --stdin', 'pass stdin on')
    .option('-t, --tty', 'with a terminal (through the cluster instead of the agent)')
    .option('--env <name=value>', 'set a variable for the command (repeatable)', collect)
    .option('--workdir <folder>', 'where to start it; relative to the workspace')
    .option('--timeout <seconds>', 'end it after this time');
  verb<ExecOptions>(command, async (context, options, args) => {
    try {
      return await run(context, await requestOf(options, args));
    } catch (error) {
      // The exit codes of the command and ours share one number: 125 is ours (as with other container tools).
      await showError(asWindlassError(withHelpOf(command, error)), context.out);
      return 125;
    }
  });
}

async function requestOf(options: ExecOptions, args: readonly string[]): Promise<Request> {
  const instanceId = await checkedId(args[0]);
  // `exec -- -id -- cmd`: the second dashes reach us as a word.
  const command = args[1] === '--' ? args.slice(2) : args.slice(1);
  if (command.length === 0) throw usage('command', 'is missing: windlass exec ID -- COMMAND');
  return {
    instanceId,
    command,
    env: Object.fromEntries((options.env ?? []).map((text) => pair('--env', text))),
    ...(options.workdir !== undefined && { workdir: options.workdir }),
    ...(options.timeout !== undefined && { timeoutMs: seconds('--timeout', options.timeout) * 1000 }),
    stdin: options.stdin === true,
    tty: options.tty === true,
  };
}

async function run(context: Context, request: Request): Promise<number> {
  const interrupt = interruptible();
  const json = context.out.format === 'json' && context.out.asked;
  const streams: Streams = {
    ...(request.stdin ? { stdin: process.stdin } : {}),
    stdout: json ? jsonStream(context, 'stdout') : through(process.stdout),
    stderr: json ? jsonStream(context, 'stderr') : through(process.stderr),
    signal: interrupt.signal,
  };
  try {
    const exitCode = await context.withOperator(async (operator) => {
      const pod = await openPod(operator, request.instanceId);
      const ran =
        request.tty || !pod.agentRuns
          ? throughCluster(pod, request, streams)
          : throughAgent(operator, request, streams, context.out.say);
      return ran.catch(async (error: unknown) => {
        streams.signal.throwIfAborted();
        throw await explainLoss(pod, asWindlassError(error));
      });
    });
    if (json) context.out.line({ exitCode });
    return exitCode;
  } catch (error) {
    if (interrupt.signal.aborted) return 130;
    throw error;
  } finally {
    interrupt.dispose();
    process.stdin.destroy();
  }
}

async function throughAgent(
  operator: Operator,
  request: Request,
  streams: Streams,
  say: (text: string) => void,
): Promise<number> {
  const agent = await operator.connectAgent(request.instanceId, { signal: streams.signal });
  try {
    const { command, env, workdir, timeoutMs, stdin } = request;
    const start = {
      command,
      env,
      stdin,
      ...(workdir !== undefined && { workdir }),
      ...(timeoutMs !== undefined && { timeoutMs }),
    };
    const { exitCode, timedOut } = await agent.client.exec(start, streams);
    // 124 could be the command's own.
    if (timedOut) say(`The command was ended after ${Number(timeoutMs) / 1000} s (--timeout).`);
    return exitCode;
  } finally {
    await agent.close();
  }
}

/** pods/exec has no fields for environment and folder, so a shell in the container sets them; values are arguments, never script. */
async function throughCluster(pod: Awaited<ReturnType<typeof openPod>>, request: Request, streams: Streams): Promise<number> {
  const assignments = Object.entries(request.env).map(([name, value]) => `${name}=${value}`);
  const withEnv = assignments.length > 0 ? ['env', ...assignments, ...request.command] : [...request.command];
  const command = request.workdir === undefined ? withEnv : ['sh', '-c', 'cd -- "$0" && exec "$@"', request.workdir, ...withEnv];
  const raw = request.tty && request.stdin && process.stdin.isTTY;
  if (raw) process.stdin.setRawMode(true);
  try {
    const result = await pod.cluster.exec({ pod: pod.name, container: pod.mainContainer }, command, {
      ...streams,
      tty: request.tty,
      timeoutMs: request.timeoutMs ?? 24 * 3600 * 1000,
      instance: request.instanceId,
    });
    return result.exitCode;
  } finally {
    if (raw) process.stdin.setRawMode(false);
  }
}

/** Ending the remote stream must not end ours. */
function through(target: NodeJS.WriteStream): Writable {
  return new Writable({
    write(chunk: Buffer, _encoding, done) {
      target.write(chunk);
      whenTaken(target, done);
    },
  });
}

/** Whoever reads us slowly holds the command up, instead of filling our memory. */
function whenTaken(target: NodeJS.WriteStream, done: () => void): void {
  if (target.writableNeedDrain) target.once('drain', done);
  else done();
}

/** `{stream, data}` lines; a character split between two chunks is put together before it is printed. */
function jsonStream(context: Context, stream: 'stdout' | 'stderr'): Writable {
  const decoder = new StringDecoder('utf8');
  const print = (data: string) => {
    if (data !== '') context.out.line({ stream, data });
  };
  return new Writable({
    write(chunk: Buffer, _encoding, done) {
      print(decoder.write(chunk));
      whenTaken(process.stdout, done);
    },
    final(done) {
      print(decoder.end());
      done();
    },
  });
}
