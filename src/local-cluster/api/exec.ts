import type { Readable } from 'node:stream';
import type { WebSocket } from 'ws';
import type { RunningProcess } from '../types.ts';
import { internalError, isRefusal } from './status.ts';

const CHANNEL = { stdin: 0, stdout: 1, stderr: 2, error: 3, resize: 4, close: 255 } as const;
/** Above this the process's output is held back until the client has read. */
const bufferLimit = 1024 * 1024;

/** What fault rules do to an exec. */
export interface ExecFaults {
  /** The connection breaks after this many bytes of output. */
  readonly dropAfterBytes?: number;
  /** The socket closes without the frame that says how the command ended. */
  readonly noStatus?: boolean;
}

export interface ExecRequest {
  readonly stdin: boolean;
  readonly stdout: boolean;
  readonly stderr: boolean;
  readonly tty: boolean;
  readonly start: () => Promise<RunningProcess>;
}

export function execFlags(query: URLSearchParams): Omit<ExecRequest, 'start'> {
  const flag = (name: string): boolean => ['true', '1'].includes(query.get(name) ?? '');
  return { stdin: flag('stdin'), stdout: flag('stdout'), stderr: flag('stderr'), tty: flag('tty') };
}

const frame = (channel: number, data: Uint8Array): Buffer => Buffer.concat([Buffer.from([channel]), data]);

function exitStatus(exitCode: number): object {
  if (exitCode === 0) return { metadata: {}, status: 'Success' };
  return {
    metadata: {},
    status: 'Failure',
    message: `command terminated with non-zero exit code: command terminated with exit code ${exitCode}`,
    reason: 'NonZeroExitCode',
    details: { causes: [{ reason: 'ExitCode', message: String(exitCode) }] },
  };
}

/** Sends one output stream, no faster than the client reads; resolves at its end. Output nobody asked for is dropped. */
function pump(
  socket: WebSocket,
  channel: number | undefined,
  source: Readable | undefined,
  onBytes: (count: number) => void,
): Promise<void> {
  if (!source) return Promise.resolve();
  return new Promise((resolve) => {
    source.on('data', (data: Buffer) => {
      if (channel === undefined || socket.readyState !== socket.OPEN) return;
      const full = socket.bufferedAmount > bufferLimit;
      if (full) source.pause();
      socket.send(frame(channel, data), () => {
        if (full) source.resume();
      });
      onBytes(data.length);
    });
    for (const event of ['end', 'close', 'error'] as const) source.on(event, () => resolve());
  });
}

function resize(socket: WebSocket, process: RunningProcess, data: Buffer): void {
  try {
    const { Width, Height } = JSON.parse(data.toString('utf8')) as { Width?: number; Height?: number };
    if (Width && Height) process.resize(Width, Height);
  } catch {
    socket.close(1007, 'a resize frame must hold {"Width": n, "Height": n}');
  }
}

/** Feeds stdin and window sizes to the process; v5 clients close stdin with a frame of their own. */
function receive(socket: WebSocket, process: RunningProcess): void {
  const { stdin } = process;
  stdin?.on('error', () => socket.resume());
  socket.on('message', (raw: Buffer) => {
    const [channel] = raw;
    const data = raw.subarray(1);
    if (channel === CHANNEL.stdin && data.length > 0 && stdin?.writable && !stdin.write(data)) {
      socket.pause();
      stdin.once('drain', () => socket.resume());
    }
    if (channel === CHANNEL.close && data[0] === CHANNEL.stdin) stdin?.end();
    if (channel === CHANNEL.resize) resize(socket, process, data);
  });
}

function failureOf(error: unknown): object {
  const message = isRefusal(error) ? error.message : error instanceof Error ? error.message : String(error);
  const { kind: _kind, apiVersion: _apiVersion, ...status } = internalError(message).status;
  return status;
}

/** Ends the socket with what became of the command. */
function finish(socket: WebSocket, status: object | undefined): void {
  if (status) socket.send(frame(CHANNEL.error, Buffer.from(JSON.stringify(status))));
  socket.close(1000);
}

async function relay(socket: WebSocket, process: RunningProcess, request: ExecRequest, faults: ExecFaults): Promise<void> {
  let sent = 0;
  const count = (bytes: number): void => {
    sent += bytes;
    if (faults.dropAfterBytes !== undefined && sent >= faults.dropAfterBytes) socket.terminate();
  };
  receive(socket, process);
  socket.resume();
  // A client that leaves does not kill the command; it only closes its stdin and no longer reads.
  socket.once('close', () => {
    process.stdin?.end();
    process.stdout.destroy();
    process.stderr?.destroy();
  });
  const outputs = [
    pump(socket, request.stdout ? CHANNEL.stdout : undefined, process.stdout, count),
    pump(socket, request.stderr ? CHANNEL.stderr : undefined, process.stderr, count),
  ];
  const [{ exitCode }] = await Promise.all([process.exit, ...outputs]);
  if (socket.readyState === socket.OPEN) finish(socket, faults.noStatus ? undefined : exitStatus(exitCode));
}

/** Runs an exec or attach over an accepted `v4.channel.k8s.io` or `v5.channel.k8s.io` socket. */
export async function serveExec(socket: WebSocket, request: ExecRequest, faults: ExecFaults): Promise<void> {
  // The real server opens with an empty frame on the lowest channel that it writes to.
  const first = request.stdout ? CHANNEL.stdout : request.stderr ? CHANNEL.stderr : CHANNEL.error;
  socket.send(frame(first, Buffer.alloc(0)));
  // Input that arrives while the command is being started must wait for it.
  socket.pause();
  try {
    if (!request.stdin && !request.stdout && !request.stderr) {
      throw new Error('unable to upgrade connection: you must specify at least 1 of stdin, stdout, stderr');
    }
    await relay(socket, await request.start(), request, faults);
  } catch (error) {
    socket.resume();
    if (socket.readyState === socket.OPEN) finish(socket, failureOf(error));
  }
}
