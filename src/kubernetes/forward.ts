import { createServer, type Server, type Socket } from 'node:net';
import type { WebSocket } from 'ws';
import { effect } from '../effects.ts';
import { asWindlassError, WindlassError } from '../errors.ts';
import { abortReason } from './api-error.ts';
import type { Connection } from './connection.ts';
import { assertObjectName, assertPort } from './names.ts';
import type { CallOptions, Forward } from './port.ts';
import { sanitize } from './sanitize.ts';
import { frameOf, openSocket, sendFrame } from './websocket.ts';

const channel = { data: 0, error: 1 } as const;
/** Each channel starts with the port it belongs to, two bytes. */
const portHeader = 2;
/** After the local side has said its last word, silence for so long means that nobody reads the answer any more. */
const lastWordMs = 5000;
const highWater = 1 << 20;

export interface ForwardLog {
  debug(fields: object, message: string): void;
}

interface Target {
  readonly connection: Connection;
  readonly namespace: string;
  readonly pod: string;
  readonly podPort: number;
  readonly log: ForwardLog;
  readonly signal: AbortSignal;
  readonly opened: (trouble: WindlassError | undefined) => void;
}

/** Listens on 127.0.0.1; each connection gets a stream of its own into the Pod, opened when it comes. */
export function createForward(connection: Connection, namespace: string, log: ForwardLog) {
  return (pod: string, podPort: number, options: CallOptions & { localPort?: number } = {}): Promise<Forward> => {
    assertObjectName(pod);
    assertPort(podPort);
    const { signal } = options;
    return effect('kube.forward', options.instance, async () => {
      if (signal?.aborted) throw abortReason(signal);
      const stop = new AbortController();
      const sockets = new Set<Socket>();
      let trouble: WindlassError | undefined;
      const opened = (result: WindlassError | undefined) => {
        trouble = result;
      };
      const target = { connection, namespace, pod, podPort, log, signal: stop.signal, opened };
      const server = createServer({ pauseOnConnect: true, allowHalfOpen: true, noDelay: true }, (local) => {
        sockets.add(local);
        local.once('close', () => sockets.delete(local));
        // A reset of the local side is its way to hang up; close follows and ends the stream.
        local.on('error', (error) => log.debug({ pod, podPort, error: error.message }, 'the local side of a forward broke'));
        void join(target, local);
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
    });
  };
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

/** One local connection to one stream. Never rejects: whatever breaks shows as a reset of the local connection. */
async function join(target: Target, local: Socket): Promise<void> {
  const opening = new AbortController();
  const signal = AbortSignal.any([target.signal, opening.signal]);
  const giveUp = () => opening.abort();
  local.once('close', giveUp);
  try {
    const remote = await openSocket(target.connection, {
      verb: 'create',
      resource: 'pods/portforward',
      name: target.pod,
      path: `/api/v1/namespaces/${target.namespace}/pods/${target.pod}/portforward`,
      query: new URLSearchParams({ ports: String(target.podPort) }),
      protocols: ['v4.channel.k8s.io'],
      signal,
      attach: (socket) => receive(target, socket, local),
    });
    target.opened(undefined);
    local.off('close', giveUp);
    if (local.destroyed) remote.terminate();
    else transmit(remote, local);
  } catch (error) {
    target.log.debug({ pod: target.pod, port: target.podPort, error: String(error) }, 'a forward could not be opened');
    if (!signal.aborted) target.opened(asWindlassError(error));
    local.resetAndDestroy();
  }
}

/** Pod → local. Attached before the handshake: the error frame may come in the same chunk as the port headers. */
function receive(target: Target, remote: WebSocket, local: Socket): void {
  const headerLeft = { [channel.data]: portHeader, [channel.error]: portHeader } as Record<number, number>;
  remote.on('message', (data) => {
    const frame = frameOf(data);
    const from = frame[0] ?? -1;
    const skip = Math.min(headerLeft[from] ?? 0, frame.length - 1);
    headerLeft[from] = (headerLeft[from] ?? 0) - skip;
    const payload = frame.subarray(1 + skip);
    if (payload.length === 0 || local.destroyed) return;
    if (from === channel.error) {
      target.log.debug(
        { pod: target.pod, port: target.podPort, error: sanitize(payload.toString('utf8'), 500) },
        'the Pod refused a forward',
      );
      local.resetAndDestroy();
      remote.terminate();
    } else if (from === channel.data && !local.write(payload)) {
      remote.pause();
      local.once('drain', () => remote.resume());
    }
  });
  remote.once('close', (code) => {
    // A clean close is the end of what the Pod had to say; anything else must not look like one.
    if (code === 1000 || code === 1005) local.end();
    else if (!local.destroyed) local.resetAndDestroy();
    // Nothing can be delivered any more: do not wait for a local side that never ends.
    setTimeout(() => local.destroy(), 2000).unref();
  });
}

/** Local → Pod, with back-pressure by what the websocket has not sent yet. */
function transmit(remote: WebSocket, local: Socket): void {
  let asked = false;
  local.on('data', (chunk: Buffer) => {
    asked = true;
    if (remote.bufferedAmount > highWater) local.pause();
    sendFrame(remote, Buffer.concat([Buffer.from([channel.data]), chunk])).then(
      () => {
        if (local.isPaused() && remote.bufferedAmount <= highWater) local.resume();
      },
      // The websocket is closing, which ends the local side as well.
      () => local.destroy(),
    );
  });
  // No half-close on the wire: closing now would lose the answer (libraries: verified).
  local.once('end', () => {
    if (asked) local.setTimeout(lastWordMs, () => local.destroy());
    else local.destroy();
  });
  local.once('close', () => {
    if (remote.isPaused) remote.resume();
    remote.close();
    setTimeout(() => remote.terminate(), 2000).unref();
  });
  local.resume();
}
