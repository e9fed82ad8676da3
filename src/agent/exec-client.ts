import { type ClientRequest, request as httpRequest, type IncomingMessage } from 'node:http';
import type { Socket } from 'node:net';
import type { Readable, Writable } from 'node:stream';
import { WindlassError } from '../errors.ts';
import { encodeFrame, type Frame, FrameReader } from './frames.ts';
import { type ExecExit, type ExecStart, execChannel, execUpgrade, maxFrame } from './protocol.ts';
import { parseJson, readAnswer, refused, requestOptions, transportError, type Wire } from './wire.ts';

export interface ExecStreams {
  /** Read when `start.stdin` is true; its end is the command's end of stdin. */
  readonly stdin?: Readable;
  /** Written with back-pressure, never ended. */
  readonly stdout: Writable;
  readonly stderr: Writable;
  /** Aborting ends the command's whole process group. */
  readonly signal?: AbortSignal;
  /** Called once the agent took the command; `send` delivers a signal (SIGINT, …) to its process group. */
  readonly onReady?: (send: (signal: NodeJS.Signals) => void) => void;
}

const upgradeMs = 30_000;
/** Small enough that a signal does not wait long behind it. */
const stdinPiece = 64 * 1024;

/** Runs one command; settles on every end of the connection, and after all output was accepted. */
export async function runExec(wire: Wire, start: ExecStart, streams: ExecStreams): Promise<ExecExit> {
  const first = encodeFrame(execChannel.start, Buffer.from(JSON.stringify(start)));
  if (first.length > maxFrame)
    throw new WindlassError('payload_too_large', 'The command and its environment are larger than 1 MiB.');
  streams.signal?.throwIfAborted();
  const { socket, head } = await upgrade(wire, streams.signal);
  return new Session(socket, start, streams).run(first, head);
}

function upgrade(wire: Wire, signal: AbortSignal | undefined): Promise<{ socket: Socket; head: Buffer }> {
  return new Promise((resolve, reject) => {
    const options = requestOptions(wire, `/api/v1/instances/${encodeURIComponent(wire.instanceId)}/exec`);
    const headers = { ...options.headers, connection: 'Upgrade', upgrade: execUpgrade };
    const request: ClientRequest = httpRequest({ ...options, headers, agent: false, timeout: upgradeMs });
    const onAbort = () => request.destroy();
    const fail = (error: unknown) => {
      signal?.removeEventListener('abort', onAbort);
      request.destroy();
      reject(signal?.aborted ? signal.reason : (wire.trouble?.() ?? transportError('forward_lost', error)));
    };
    signal?.addEventListener('abort', onAbort, { once: true });
    request.once('timeout', () => fail(new Error(`no answer within ${upgradeMs} ms`)));
    // Stays: after the upgrade was refused the socket may still fail, which must not end the process.
    request.on('error', fail);
    request.once('response', (response: IncomingMessage) => {
      readAnswer(response).then((answer) => fail(refused('the exec', answer)), fail);
    });
    request.once('upgrade', (_response, socket: Socket, head: Buffer) => {
      signal?.removeEventListener('abort', onAbort);
      // A command may be silent for as long as it likes.
      socket.setTimeout(0);
      resolve({ socket, head });
    });
    request.end();
  });
}

class Session {
  readonly #socket: Socket;
  readonly #start: ExecStart;
  readonly #streams: ExecStreams;
  readonly #reader = new FrameReader();
  #exit: ExecExit | undefined;
  #error: unknown;
  /** Output that a sink has not accepted yet. */
  #pending = 0;
  /** Sinks that asked us to wait. */
  readonly #full = new Set<Writable>();
  readonly #settled: Promise<void>;
  #settle: () => void = () => {};

  constructor(socket: Socket, start: ExecStart, streams: ExecStreams) {
    this.#socket = socket;
    this.#start = start;
    this.#streams = streams;
    this.#settled = new Promise((resolve) => {
      this.#settle = resolve;
    });
  }

  async run(first: Buffer, head: Buffer): Promise<ExecExit> {
    const { signal, stdout, stderr, onReady } = this.#streams;
    const onAbort = () => this.#fail(signal?.reason);
    const onSinkError = (error: unknown) => this.#fail(error);
    signal?.addEventListener('abort', onAbort, { once: true });
    for (const sink of new Set([stdout, stderr])) sink.on('error', onSinkError);
    this.#listen();
    this.#socket.write(first);
    const stopStdin = this.#pumpStdin();
    if (head.length > 0) this.#receive(head);
    if (signal?.aborted) onAbort();
    else onReady?.((name) => this.#write(execChannel.signal, Buffer.from(name)));
    await this.#settled;
    stopStdin();
    signal?.removeEventListener('abort', onAbort);
    for (const sink of new Set([stdout, stderr])) sink.off('error', onSinkError);
    this.#socket.destroy();
    if (this.#error !== undefined) throw this.#error;
    return this.#exit!;
  }

  #listen(): void {
    const lost = (why: string) => this.#fail(new WindlassError('exec_lost', `The command was cut off: ${why}.`));
    this.#socket.on('data', (chunk: Buffer) => this.#receive(chunk));
    this.#socket.on('error', (error) => this.#fail(transportError('exec_lost', error)));
    this.#socket.once('end', () => lost('the agent ended the connection without an exit code'));
    this.#socket.once('close', () => lost('the connection closed without an exit code'));
  }

  #receive(chunk: Buffer): void {
    try {
      for (const frame of this.#reader.push(chunk)) this.#handle(frame);
    } catch (error) {
      this.#fail(new WindlassError('exec_lost', `The agent broke the protocol: ${(error as Error).message}.`));
    }
  }

  #handle(frame: Frame): void {
    if (this.#exit !== undefined || this.#error !== undefined) return;
    if (frame.channel === execChannel.stdout) this.#output(this.#streams.stdout, frame.payload);
    else if (frame.channel === execChannel.stderr) this.#output(this.#streams.stderr, frame.payload);
    else if (frame.channel === execChannel.exit) {
      this.#exit = execExit(frame.payload);
      if (this.#pending === 0) this.#settle();
    } else throw new Error(`unexpected frame on channel ${frame.channel}`);
  }

  #output(sink: Writable, payload: Buffer): void {
    if (payload.length === 0) return;
    this.#pending++;
    const accepted = sink.write(payload, (error) => {
      this.#pending--;
      if (error) this.#fail(error);
      else if (this.#exit !== undefined && this.#pending === 0) this.#settle();
    });
    if (accepted || this.#full.has(sink)) return;
    this.#full.add(sink);
    this.#socket.pause();
    sink.once('drain', () => {
      this.#full.delete(sink);
      if (this.#full.size === 0) this.#socket.resume();
    });
  }

  /** Returns what ends the pumping; the caller's stream stays usable. */
  #pumpStdin(): () => void {
    const { stdin } = this.#streams;
    if (!this.#start.stdin) return () => {};
    if (!stdin) {
      this.#write(execChannel.stdin, Buffer.alloc(0));
      return () => {};
    }
    const onData = (chunk: Buffer | string) => {
      const data = Buffer.from(chunk as Buffer);
      let accepted = true;
      for (let at = 0; at < data.length; at += stdinPiece) {
        accepted = this.#write(execChannel.stdin, data.subarray(at, at + stdinPiece));
      }
      if (!accepted) stdin.pause();
    };
    const onEnd = () => this.#write(execChannel.stdin, Buffer.alloc(0));
    const onError = (error: unknown) => this.#fail(error);
    const onDrain = () => stdin.resume();
    stdin.on('data', onData).once('end', onEnd).on('error', onError);
    this.#socket.on('drain', onDrain);
    return () => {
      stdin.off('data', onData).off('end', onEnd).off('error', onError).pause();
      this.#socket.off('drain', onDrain);
    };
  }

  #write(channel: number, payload: Buffer): boolean {
    return this.#socket.writable ? this.#socket.write(encodeFrame(channel, payload)) : true;
  }

  /** The first reason stands; an exit that has arrived is not undone by the end of its connection. */
  #fail(error: unknown): void {
    const cutOff = error instanceof WindlassError && error.code === 'exec_lost';
    if (this.#error !== undefined || (this.#exit !== undefined && cutOff)) return;
    this.#error = error ?? new WindlassError('exec_lost');
    this.#settle();
  }
}

function execExit(payload: Buffer): ExecExit {
  const { exitCode, signal, timedOut } = (parseJson(payload.toString()) ?? {}) as Record<string, unknown>;
  const code = Number.isInteger(exitCode) && (exitCode as number) >= 0 && (exitCode as number) <= 255;
  const named = signal === null || (typeof signal === 'string' && /^SIG[A-Z0-9]{1,12}$/.test(signal));
  if (!code || !named || typeof timedOut !== 'boolean') throw new Error('the exit frame is malformed');
  return { exitCode: exitCode as number, signal: signal as string | null, timedOut };
}
