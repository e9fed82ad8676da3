import type { Readable, Writable } from 'node:stream';
import type { WebSocket } from 'ws';
import { sendFrame } from './websocket.ts';

export const channel = { stdin: 0, stdout: 1, stderr: 2, status: 3, close: 255 } as const;
/** The first protocol in which stdin can end; before it, closing would lose output and status. */
export const endsStdin = 'v5.channel.k8s.io';

const chunkSize = 32 * 1024;
const captureLimit = 64 * 1024;

export interface Sink {
  write(payload: Buffer, socket: WebSocket): Promise<void>;
  /** Resolves when the stream has room again; rejects when it broke. */
  flushed(): Promise<void>;
  text(): string;
}

/** Where output goes: a caller's stream with back-pressure on the socket, or a capped tail in memory. */
export function createSink(stream: Writable | undefined): Sink {
  let tail = Buffer.alloc(0);
  let broken: Error | undefined;
  stream?.once('error', (error: Error) => {
    broken = error;
  });
  return {
    async write(payload, socket) {
      if (payload.length === 0) return;
      if (stream === undefined) {
        tail = Buffer.concat([tail, payload]);
        if (tail.length > captureLimit) tail = tail.subarray(tail.length - captureLimit);
        return;
      }
      if (broken) throw broken;
      if (stream.write(payload)) return;
      socket.pause();
      await drained(stream);
      socket.resume();
    },
    async flushed() {
      if (stream?.writableNeedDrain) await drained(stream);
      if (broken) throw broken;
    },
    text: () => tail.toString('utf8'),
  };
}

function drained(stream: Writable): Promise<void> {
  return new Promise((resolve, reject) => {
    const done = (error?: Error) => {
      stream.off('drain', done).off('error', done).off('close', done);
      if (error) reject(error);
      else resolve();
    };
    stream.on('drain', done).on('error', done).on('close', done);
  });
}

/**
 * Sends stdin as fast as the socket takes it, then its end. Returns how to stop: the command may end before it has
 * read everything, and a source that never ends (a terminal) must not hold us. `onError` is for a broken source only;
 * a broken socket closes, and that settles the call.
 */
export function feedStdin(socket: WebSocket, stdin: Uint8Array | Readable, onError: (error: Error) => void): () => void {
  let stopped = false;
  const send = async (bytes: Buffer): Promise<void> => {
    for (let at = 0; at < bytes.length && !stopped; at += chunkSize) {
      await sendFrame(socket, Buffer.concat([Buffer.from([channel.stdin]), bytes.subarray(at, at + chunkSize)]));
    }
  };
  const finish = async (): Promise<void> => {
    if (!stopped && socket.protocol === endsStdin) await sendFrame(socket, Buffer.from([channel.close, channel.stdin]));
  };
  const stop = () => {
    stopped = true;
  };
  if (stdin instanceof Uint8Array) {
    send(Buffer.from(stdin)).then(finish).catch(stop);
    return stop;
  }
  let queue = Promise.resolve();
  const onData = (chunk: Uint8Array | string): void => {
    stdin.pause();
    queue = send(Buffer.from(chunk as Uint8Array)).then(() => {
      if (!stopped) stdin.resume();
    });
    queue.catch(stop);
  };
  const onEnd = () => queue.then(finish).catch(stop);
  stdin.on('data', onData).on('end', onEnd).on('error', onError);
  return () => {
    stop();
    stdin.off('data', onData).off('end', onEnd).off('error', onError).pause();
  };
}
