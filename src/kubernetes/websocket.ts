import type { IncomingMessage } from 'node:http';
import { WebSocket } from 'ws';
import { ApiError, type Asked, abortReason, errorOfAnswer, errorOfTransport } from './api-error.ts';
import type { Connection } from './connection.ts';
import { bodyStart } from './rest.ts';

export interface SocketRequest extends Asked {
  readonly path: string;
  readonly query: URLSearchParams;
  readonly protocols: readonly string[];
  readonly signal?: AbortSignal | undefined;
  /** Called with the socket before it opens, so that no frame that comes with the handshake is lost. */
  readonly attach: (socket: WebSocket) => void;
}

const handshakeTimeoutMs = 15_000;
/** Servers send frames of at most some 32 KiB; more is no exec stream. */
const maxPayload = 4 << 20;

/** An open WebSocket to a subresource. Refusals are classified like those of calls; after a 401 it is tried once more. */
export async function openSocket(connection: Connection, request: SocketRequest): Promise<WebSocket> {
  try {
    return await open(connection, request);
  } catch (error) {
    if (!(error instanceof ApiError) || error.status !== 401) throw error;
    await connection.reload();
    return open(connection, request);
  }
}

async function open(connection: Connection, request: SocketRequest): Promise<WebSocket> {
  const access = await connection.access();
  const { signal } = request;
  if (signal?.aborted) throw abortReason(signal);
  const url = `${access.base.replace(/^http/, 'ws')}${request.path}?${request.query}`;
  const socket = new WebSocket(url, [...request.protocols], {
    ...access.websocket,
    handshakeTimeout: handshakeTimeoutMs,
    maxPayload,
    perMessageDeflate: false,
    followRedirects: false,
  });
  request.attach(socket);
  return new Promise<WebSocket>((resolve, reject) => {
    const giveUp = () => {
      socket.terminate();
      reject(abortReason(signal as AbortSignal));
    };
    signal?.addEventListener('abort', giveUp, { once: true });
    const settle = (run: () => void): void => {
      signal?.removeEventListener('abort', giveUp);
      run();
    };
    socket.once('upgrade', (response) => response.socket.setKeepAlive(true, 15_000));
    socket.once('open', () => settle(() => resolve(socket)));
    socket.once('unexpected-response', (_outgoing, response) => {
      void refusal(request, response).then((error) => {
        settle(() => reject(error));
        socket.terminate();
      });
    });
    // Nothing runs in the Pod before the upgrade is answered: a failure here leaves no doubt.
    socket.once('error', (error) => settle(() => reject(errorOfTransport(request, error, { sent: false }))));
    // After the promise has settled, errors belong to whoever attached; without any listener they would be uncaught.
    socket.on('error', () => {});
  });
}

async function refusal(asked: Asked, response: IncomingMessage): Promise<ApiError> {
  return errorOfAnswer(asked, {
    status: response.statusCode ?? 0,
    body: await bodyStart(response),
    retryAfter: response.headers['retry-after'],
  });
}

/** The bytes of a frame, however ws delivers them. */
export function frameOf(data: unknown): Buffer {
  if (Buffer.isBuffer(data)) return data;
  if (data instanceof ArrayBuffer) return Buffer.from(data);
  return Array.isArray(data) ? Buffer.concat(data as Buffer[]) : Buffer.from(String(data));
}

/** Sends and waits until the bytes left for the kernel: back-pressure for the sender. */
export function sendFrame(socket: WebSocket, frame: Uint8Array): Promise<void> {
  return new Promise((resolve, reject) => {
    socket.send(frame, (error) => (error ? reject(error) : resolve()));
  });
}
