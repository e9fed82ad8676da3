import { createServer, type Server, type Socket } from 'node:net';
import { WindlassError } from '../errors.ts';
import { abortReason } from './api-error.ts';
import type { CallOptions, Forward } from './port.ts';

/** What serves one local connection. */
export interface Connected {
  /** Aborted when the listener is closed. */
  readonly signal: AbortSignal;
  /** Whether a way into the Pod could be opened for it; why not, otherwise. */
  opened(trouble: WindlassError | undefined): void;
}

export interface ListenOptions extends CallOptions {
  readonly localPort?: number;
  /** The local side of a connection broke: a reset is its way to hang up, so this is for the log only. */
  readonly broke?: (error: Error) => void;
}

/** After the local side has said its last word, silence for so long means that nobody reads the answer any more. */
export const lastWordMs = 5000;

/**
 * Listens on 127.0.0.1 (never elsewhere: what comes in is not asked who it is). Each connection is handed to `join`
 * paused and half-open; whatever breaks the way into the Pod, the next connection opens a new one.
 */
export async function openListener(
  join: (local: Socket, connected: Connected) => Promise<void>,
  options: ListenOptions,
): Promise<Forward> {
  const { signal } = options;
  if (signal?.aborted) throw abortReason(signal);
  const stop = new AbortController();
  const sockets = new Set<Socket>();
  let trouble: WindlassError | undefined;
  const opened = (result: WindlassError | undefined) => {
    trouble = result;
  };
  const server = createServer({ pauseOnConnect: true, allowHalfOpen: true, noDelay: true }, (local) => {
    sockets.add(local);
    local.once('close', () => sockets.delete(local));
    // Without a listener the reset would end the process; close follows and ends the way into the Pod.
    local.on('error', (error) => options.broke?.(error));
    void join(local, { signal: stop.signal, opened });
  });
  const port = await listen(server, options.localPort ?? 0);
  let closed: Promise<void> | undefined;
  const close = (): Promise<void> => {
    closed ??= new Promise((resolve) => {
      signal?.removeEventListener('abort', onAbort);
      server.close(() => resolve());
      stop.abort();
      for (const socket of sockets) socket.destroy();
    });
    return closed;
  };
  const onAbort = () => void close();
  signal?.addEventListener('abort', onAbort, { once: true });
  return { port, trouble: () => trouble, close };
}

function listen(server: Server, port: number): Promise<number> {
  return new Promise((resolve, reject) => {
    server.once('error', (error: NodeJS.ErrnoException) => {
      reject(
        new WindlassError('forward_lost', `127.0.0.1:${port} cannot be listened on (${error.code ?? 'error'}).`, {
          cause: error,
        }),
      );
    });
    server.listen(port, '127.0.0.1', () => {
      const address = server.address();
      resolve(typeof address === 'object' && address !== null ? address.port : port);
    });
  });
}
