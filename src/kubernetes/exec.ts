import type { WebSocket } from 'ws';
import { effect } from '../effects.ts';
import { WindlassError } from '../errors.ts';
import { abortReason } from './api-error.ts';
import type { Connection } from './connection.ts';
import { channel, createSink, endsStdin, feedStdin } from './exec-streams.ts';
import { assertLabelName, assertObjectName } from './names.ts';
import type { ExecOptions, ExecResult, ExecTarget } from './port.ts';
import { sanitize } from './sanitize.ts';
import { frameOf, openSocket } from './websocket.ts';

const protocols = [endsStdin, 'v4.channel.k8s.io'];
const defaultTimeoutMs = 60_000;

/**
 * Runs a command in a container. Settles on every end: status frame, close without one (`exec_lost`: the command may
 * have run), timeout (`exec_lost`), abort. The remote process is not killed when we let go: only its own end ends it.
 * Servers before 1.30 speak v4, which cannot end stdin: there the command has to end by itself (`head -c N`).
 */
export function createExec(connection: Connection, namespace: string) {
  return async (target: ExecTarget, command: readonly string[], options: ExecOptions = {}): Promise<ExecResult> => {
    assertObjectName(target.pod);
    assertLabelName('container', target.container);
    if (command.length === 0) throw new WindlassError('invariant_broken', 'An exec without a command would run nothing.');
    const query = new URLSearchParams(command.map((part): [string, string] => ['command', part]));
    query.set('container', target.container);
    if (options.stdin !== undefined) query.set('stdin', 'true');
    query.set('stdout', 'true');
    // A terminal has one output only; servers refuse stderr beside it.
    query.set(options.tty ? 'tty' : 'stderr', 'true');
    const path = `/api/v1/namespaces/${namespace}/pods/${target.pod}/exec`;
    return effect('kube.exec', options.instance, () => run(connection, { path, query, pod: target.pod }, options));
  };
}

interface Call {
  readonly path: string;
  readonly query: URLSearchParams;
  readonly pod: string;
}

async function run(connection: Connection, call: Call, options: ExecOptions): Promise<ExecResult> {
  const limit = AbortSignal.timeout(options.timeoutMs ?? defaultTimeoutMs);
  const signal = options.signal ? AbortSignal.any([options.signal, limit]) : limit;
  const session = createSession(options);
  const onAbort = () => session.fail(abortReason(signal));
  signal.addEventListener('abort', onAbort, { once: true });
  try {
    const { path, query, pod: name } = call;
    await openSocket(connection, {
      verb: 'create',
      resource: 'pods/exec',
      name,
      path,
      query,
      protocols,
      signal,
      attach: session.attach,
    });
    return await session.result;
  } catch (error) {
    if (options.signal?.aborted) throw abortReason(options.signal);
    if (limit.aborted)
      throw new WindlassError('exec_lost', `The command in ${call.pod} did not end in time; it may still be running.`, {
        cause: error,
      });
    throw error;
  } finally {
    signal.removeEventListener('abort', onAbort);
    session.end();
  }
}

interface Session {
  readonly result: Promise<ExecResult>;
  attach(socket: WebSocket): void;
  fail(error: WindlassError): void;
  end(): void;
}

/** What happens on the socket of one exec, from its first frame to the one result. */
function createSession(options: ExecOptions): Session {
  const sinks = { out: createSink(options.stdout), err: createSink(options.stderr) };
  const endings: (() => void)[] = [];
  let ending = false;
  let resolve: (result: ExecResult) => void = () => {};
  let reject: (error: unknown) => void = () => {};
  const result = new Promise<ExecResult>((onResult, onError) => {
    resolve = onResult;
    reject = onError;
  });
  // When the socket cannot even be opened nobody waits for this.
  result.catch(() => {});

  const finish = async (text: string, socket: WebSocket): Promise<void> => {
    ending = true;
    const exit = exitOf(text);
    if (exit.message !== undefined) await sinks.err.write(Buffer.from(`${exit.message}\n`), socket);
    await Promise.all([sinks.out.flushed(), sinks.err.flushed()]);
    resolve({ exitCode: exit.code, stdout: sinks.out.text(), stderr: sinks.err.text() });
  };
  const onFrame = async (frame: Buffer, socket: WebSocket): Promise<void> => {
    // What a broken server sends after the status is nobody's output.
    if (ending) return;
    const payload = frame.subarray(1);
    if (frame[0] === channel.stdout) await sinks.out.write(payload, socket);
    else if (frame[0] === channel.stderr) await sinks.err.write(payload, socket);
    else if (frame[0] === channel.status) await finish(payload.toString('utf8'), socket);
  };

  return {
    result,
    fail: reject,
    attach(socket) {
      socket.on('message', (data) => void onFrame(frameOf(data), socket).catch(reject));
      socket.once('open', () => {
        socket.on('close', (code) => {
          // Once the status is here the close is the normal end, even if a slow sink is still being written to.
          if (!ending) reject(lost(new Error(`closed with ${code}`)));
        });
        if (options.stdin !== undefined) endings.push(feedStdin(socket, options.stdin, (error) => reject(lost(error))));
      });
      endings.push(() => closeSocket(socket));
    },
    end() {
      for (const run of endings) run();
    },
  };
}

function closeSocket(socket: WebSocket): void {
  // Only a socket that has frames can be paused; resuming one that never opened throws.
  if (socket.isPaused) socket.resume();
  socket.close();
  // A server that never answers the close would keep the connection for ever.
  setTimeout(() => socket.terminate(), 2000).unref();
}

function lost(cause: unknown): WindlassError {
  const text = cause instanceof Error ? cause.message : String(cause);
  return new WindlassError('exec_lost', `The connection of the command broke before its result came (${sanitize(text, 200)}).`, {
    cause,
  });
}

/** The status frame: a Status object whose causes carry the exit code. */
function exitOf(text: string): { readonly code: number; readonly message?: string } {
  let status: { status?: string; message?: string; details?: { causes?: { reason?: string; message?: string }[] } };
  try {
    status = JSON.parse(text) as typeof status;
  } catch (error) {
    throw lost(error);
  }
  if (status.status === 'Success') return { code: 0 };
  const code = Number(status.details?.causes?.find((cause) => cause.reason === 'ExitCode')?.message ?? Number.NaN);
  if (Number.isInteger(code)) return { code };
  const message = sanitize(status.message ?? 'the command could not be run', 1000);
  // The runtime could not start the command: told as a shell tells it.
  if (/executable file not found|no such file/i.test(message)) return { code: 127, message: startWords(message) };
  if (/permission denied|is a directory/i.test(message)) return { code: 126, message: startWords(message) };
  throw new WindlassError('exec_lost', `The command could not be run: ${message}`);
}

/** The runtime's own words about the program, without what API server, kubelet and runtime put around them. */
function startWords(message: string): string {
  return `windlass: ${/exec: ("[^"]*": .+?)(?:: unknown)?$/.exec(message)?.[1] ?? message}`;
}
