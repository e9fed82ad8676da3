import type { Duplex } from 'node:stream';
import type { WebSocket } from 'ws';
import type { NodeRuntime } from '../types.ts';
import { badRequest } from './status.ts';

const bufferLimit = 1024 * 1024;

/** What fault rules do to a forward. */
export interface ForwardFaults {
  readonly refuse?: boolean;
  readonly reset?: boolean;
}

export function forwardPorts(query: URLSearchParams): number[] {
  const ports = query.getAll('ports').flatMap((text) => text.split(','));
  if (ports.length === 0) throw badRequest('query parameter "port" is required');
  for (const port of ports) {
    if (!/^\d+$/.test(port) || Number(port) < 1 || Number(port) > 65_535) throw badRequest(`unable to parse "${port}" as a port`);
  }
  return ports.map(Number);
}

const frame = (channel: number, data: Uint8Array): Buffer => Buffer.concat([Buffer.from([channel]), data]);

function portHeader(port: number): Buffer {
  const header = Buffer.alloc(2);
  header.writeUInt16LE(port);
  return header;
}

function errorText(port: number, podUid: string, error: unknown): string {
  const why = typeof error === 'object' && error !== null && 'message' in error ? String(error.message) : String(error);
  return `error forwarding port ${port} to pod ${podUid}, uid : ${why}`;
}

/** Copies bytes both ways until either side ends; slow readers hold the other side back. */
function join(socket: WebSocket, channel: number, stream: Duplex): Promise<void> {
  stream.on('data', (data: Buffer) => {
    if (socket.readyState !== socket.OPEN) return;
    const full = socket.bufferedAmount > bufferLimit;
    if (full) stream.pause();
    socket.send(frame(channel, data), () => {
      if (full) stream.resume();
    });
  });
  // It may come paused, so that nothing was lost before; listening alone does not start such a stream.
  stream.resume();
  socket.on('message', (raw: Buffer) => {
    if (raw[0] !== channel || raw.length < 2 || !stream.writable) return;
    if (!stream.write(raw.subarray(1))) {
      socket.pause();
      stream.once('drain', () => socket.resume());
    }
  });
  socket.once('close', () => stream.destroy());
  return new Promise((resolve, reject) => {
    stream.once('end', resolve);
    stream.once('close', () => {
      socket.resume();
      resolve();
    });
    stream.on('error', reject);
  });
}

/**
 * A `v4.channel.k8s.io` port forward: two channels a port (data, error), each opened with the port number. Frames that
 * arrive while the Pod is being dialled are kept: the socket is paused until then. It closes once every port is done.
 */
export async function serveForward(
  socket: WebSocket,
  node: NodeRuntime,
  podUid: string,
  ports: readonly number[],
  faults: ForwardFaults,
): Promise<void> {
  for (const [index, port] of ports.entries()) {
    socket.send(frame(index * 2, portHeader(port)));
    socket.send(frame(index * 2 + 1, portHeader(port)));
  }
  if (faults.reset) {
    socket.once('message', () => socket.terminate());
    return;
  }
  let dialling = ports.length;
  socket.pause();
  const settled = (): void => {
    dialling -= 1;
    if (dialling === 0) socket.resume();
  };
  const serve = async (port: number, index: number): Promise<void> => {
    try {
      if (faults.refuse) throw new Error(`failed to connect to localhost:${port} inside the Pod: connection refused`);
      const stream = await node.dial(podUid, port).finally(settled);
      await join(socket, index * 2, stream);
    } catch (error) {
      if (socket.readyState === socket.OPEN) socket.send(frame(index * 2 + 1, Buffer.from(errorText(port, podUid, error))));
    }
  };
  await Promise.all(ports.map(serve));
  socket.resume();
  if (socket.readyState === socket.OPEN) socket.close(1000);
}
