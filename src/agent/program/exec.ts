import { constants } from 'node:os';
import { resolve } from 'node:path';
import type { Duplex, Readable } from 'node:stream';
import { encodeFrame, type Frame, FrameReader } from '../frames.ts';
import { type ExecExit, type ExecStart, execChannel } from '../protocol.ts';
import { execStart } from './checks.ts';
import type { Instance, Instances } from './instances.ts';
import { type Ended, type Processes, type Running, StartFailure } from './processes.ts';
import { inWorkspace, type Settings } from './settings.ts';

/** An empty output frame now and then: only a write shows that the client is gone while its stdin is held back. */
const heartbeatMs = 2000;
/** After the command ended: silence that means only a background process keeps the output open. */
const silenceMs = 300;
/** A client that has the exit frame and does not hang up is hung up on. */
const hangUpMs = 5000;
/** More than two pipes and our buffers hold. */
const pipeBytes = 1 << 20;

export interface ExecContext {
  readonly settings: Settings;
  readonly instances: Instances;
  readonly processes: Processes;
}

/** One exec over one upgraded connection; see `execChannel` for the frames. */
export class ExecSession {
  readonly #context: ExecContext;
  readonly #instance: Instance;
  readonly #socket: Duplex;
  readonly #reader = new FrameReader();
  readonly #heartbeat: NodeJS.Timeout;
  #running: Running | undefined;
  #started = false;
  #gone = false;
  #finished = false;
  #timedOut = false;
  /** Frames that came while the command was being started. */
  #early: Frame[] = [];
  #lastOutput = 0;
  #outputBytes = 0;

  constructor(context: ExecContext, instance: Instance, socket: Duplex) {
    this.#context = context;
    this.#instance = instance;
    this.#socket = socket;
    socket.on('data', (chunk: Buffer) => this.#receive(chunk));
    socket.on('drain', () => this.#resumeOutput());
    socket.on('error', () => this.#clientGone());
    socket.once('end', () => this.#clientGone());
    socket.once('close', () => this.#clientGone());
    this.#heartbeat = setInterval(() => this.#send(execChannel.stdout, Buffer.alloc(0)), heartbeatMs);
  }

  #receive(chunk: Buffer): void {
    if (this.#finished) return;
    this.#instance.touch();
    try {
      for (const frame of this.#reader.push(chunk)) this.#handle(frame);
    } catch (error) {
      this.#fail(125, `windlass: ${(error as Error).message}`);
      void this.#running?.terminate();
    }
  }

  #handle(frame: Frame): void {
    if (!this.#started) {
      this.#started = true;
      if (frame.channel !== execChannel.start) throw new Error('the first frame must be start');
      const start = execStart(JSON.parse(frame.payload.toString()));
      if (typeof start === 'string') throw new Error(start);
      void this.#start(start);
    } else if (!this.#running) this.#early.push(frame);
    else if (frame.channel === execChannel.stdin) this.#feed(this.#running, frame.payload);
    else if (frame.channel === execChannel.signal) this.#running.signal(signalName(frame.payload.toString()));
    else throw new Error(`unexpected frame on channel ${frame.channel}`);
  }

  async #start(start: ExecStart): Promise<void> {
    const { settings, instances, processes } = this.#context;
    this.#socket.pause();
    try {
      const cwd = resolve(instances.workspaceOf(this.#instance), inWorkspace(settings, start.workdir ?? '.'));
      const env = instances.envOf(this.#instance, start.env);
      const running = await processes.start(start.command, { cwd, env, stdin: start.stdin });
      if (this.#gone || this.#finished) return await running.terminate();
      this.#running = running;
      this.#instance.running.add(running);
      this.#follow(running, start.timeoutMs);
      for (const frame of this.#early.splice(0)) this.#handle(frame);
      if (!running.stdin?.writableNeedDrain) this.#socket.resume();
    } catch (error) {
      const exitCode = error instanceof StartFailure ? error.exitCode : 125;
      this.#fail(exitCode, (error as Error).message);
      void this.#running?.terminate();
    }
  }

  #follow(running: Running, timeoutMs: number | undefined): void {
    const outputs = [this.#forward(running.stdout, execChannel.stdout), this.#forward(running.stderr, execChannel.stderr)];
    const timer = timeoutMs === undefined ? undefined : setTimeout(() => this.#timeout(running), timeoutMs);
    running.stdin?.on('drain', () => this.#socket.resume());
    running.stdin?.once('close', () => this.#socket.resume());
    void running.ended.then(async (ended) => {
      clearTimeout(timer);
      this.#instance.running.delete(running);
      this.#instance.touch();
      await Promise.race([Promise.all(outputs), this.#silence()]);
      this.#exit(ended);
      running.stdout.destroy();
      running.stderr.destroy();
      running.stdin?.destroy();
    });
  }

  #forward(stream: Readable, channel: number): Promise<void> {
    stream.on('data', (chunk: Buffer) => {
      this.#lastOutput = Date.now();
      this.#outputBytes += chunk.length;
      this.#instance.touch();
      if (!this.#send(channel, chunk)) this.#pauseOutput();
    });
    return new Promise((done) => stream.once('close', done));
  }

  /**
   * Settles when what still comes can only be a background process's: after a silence, never shorter than the client takes
   * to accept what is there, or after more bytes than a pipe can hold from before the command ended.
   */
  #silence(): Promise<void> {
    const endedAt = Date.now();
    const enough = this.#outputBytes + pipeBytes;
    return new Promise((done) => {
      const timer = setInterval(() => {
        if (this.#socket.writableNeedDrain && !this.#gone) this.#lastOutput = Date.now();
        const silent = Date.now() - Math.max(this.#lastOutput, endedAt) >= silenceMs;
        if (silent || this.#outputBytes > enough) {
          clearInterval(timer);
          done();
        }
      }, 50);
    });
  }

  #feed(running: Running, payload: Buffer): void {
    if (!running.stdin || running.stdin.destroyed) return;
    if (payload.length === 0) running.stdin.end();
    else if (!running.stdin.writableEnded && !running.stdin.write(payload)) this.#socket.pause();
  }

  #pauseOutput(): void {
    this.#running?.stdout.pause();
    this.#running?.stderr.pause();
  }

  #resumeOutput(): void {
    this.#running?.stdout.resume();
    this.#running?.stderr.resume();
  }

  #timeout(running: Running): void {
    this.#timedOut = true;
    void running.terminate();
  }

  #exit(ended: Ended): void {
    const exitCode = this.#timedOut ? 124 : ended.exitCode;
    this.#finish({ exitCode, signal: ended.signal, timedOut: this.#timedOut });
  }

  #fail(exitCode: number, message: string): void {
    this.#send(execChannel.stderr, Buffer.from(`${message}\n`));
    this.#finish({ exitCode, signal: null, timedOut: false });
  }

  #finish(exit: ExecExit): void {
    this.#send(execChannel.exit, Buffer.from(JSON.stringify(exit)));
    this.#finished = true;
    clearInterval(this.#heartbeat);
    // Unread stdin must not hold back the end of the connection.
    this.#socket.resume();
    this.#socket.end(() => setTimeout(() => this.#socket.destroy(), hangUpMs).unref());
  }

  #send(channel: number, payload: Buffer): boolean {
    if (this.#gone || this.#finished) return true;
    return this.#socket.write(encodeFrame(channel, payload));
  }

  #clientGone(): void {
    if (this.#gone) return;
    this.#gone = true;
    clearInterval(this.#heartbeat);
    this.#socket.destroy();
    this.#resumeOutput();
    if (!this.#finished) void this.#running?.terminate();
  }
}

function signalName(text: string): NodeJS.Signals {
  if (!Object.hasOwn(constants.signals, text)) throw new Error('unknown signal');
  return text as NodeJS.Signals;
}
