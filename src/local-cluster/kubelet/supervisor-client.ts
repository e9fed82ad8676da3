import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { type Duplex, PassThrough, Writable } from 'node:stream';
import type { FileKind } from './isolation.ts';

/** What the supervisor starts; `group` is the container's id: all its runs die with its main process. */
export interface RunRequest {
  readonly group: string;
  /** The container's own process, not an exec. */
  readonly main: boolean;
  readonly argv: readonly string[];
  readonly env: Readonly<Record<string, string>>;
  readonly cwd?: string;
  /** argv is a bwrap that names its child on fd 3. */
  readonly sandboxed: boolean;
  readonly stdin: boolean;
  /** Bytes; above it the container is killed as out of memory. */
  readonly memoryLimit?: number | undefined;
}

export interface RunExit {
  readonly exitCode: number;
  readonly outOfMemory?: boolean;
  /** Set when the program never started. */
  readonly error?: string;
}

/** A process under the supervisor. */
export interface Run {
  readonly stdin: Writable;
  readonly stdout: PassThrough;
  readonly stderr: PassThrough;
  /** Settles once the process ended; its output may still have to be read (`endOfRead`). Never rejects. */
  readonly exit: Promise<RunExit>;
  /** With `onlyIfCaught` the signal is dropped unless the process handles it, as it is for a PID 1. */
  signal(name: NodeJS.Signals, onlyIfCaught: boolean): void;
  resize(columns: number, rows: number): void;
  /** Drops the connection: the supervisor kills the process. */
  kill(): void;
}

/**
 * The end of a run whose two outputs the caller has just begun to read, after all of both was read: a program that ended
 * before anybody listened has its output still to hand over, and what is made of it (log, message, complaint) would be empty.
 */
export async function endOfRead(run: Run): Promise<RunExit> {
  const read = Promise.all([once(run.stdout, 'close'), once(run.stderr, 'close')]);
  const exit = await run.exit;
  await read;
  return exit;
}

/** Frame types; the other half is supervisor.mjs. */
const fromSupervisor = { started: 0, stdout: 1, stderr: 2, exit: 3 } as const;
const toSupervisor = { stdin: 0, stdinEnd: 1, signal: 2, resize: 3 } as const;

export class SupervisorClient {
  readonly #path: string;

  constructor(path: string) {
    this.#path = path;
  }

  /** Starts a process; settles when it runs. Rejects with the reason when it cannot be started. */
  async run(request: RunRequest): Promise<Run> {
    const socket = await this.#open({ op: 'run', ...request });
    return new Promise((resolve, reject) => {
      const run = new SupervisedRun(socket);
      run.started.then(() => resolve(run), reject);
    });
  }

  /** A connection to a port of the Pod, trying each host in turn; rejects with what each answered. */
  async dial(hosts: readonly string[], port: number): Promise<Duplex> {
    const socket = await this.#open({ op: 'dial', hosts, port });
    await answer(socket);
    return socket;
  }

  async mkdir(paths: readonly string[]): Promise<void> {
    const socket = await this.#open({ op: 'files', mkdir: paths });
    await answer(socket);
    socket.destroy();
  }

  async stat(path: string): Promise<FileKind> {
    const socket = await this.#open({ op: 'files', stat: path });
    const { kind = 'nothing' } = await answer(socket);
    socket.destroy();
    return kind;
  }

  /**
   * Resolves once the request is on its way. A supervisor may be gone by then (its Pod was killed): without a listener of
   * our own that would end this process, and whoever got the socket before it was known would wait for an end that was.
   */
  #open(request: object): Promise<Socket> {
    return new Promise((resolve, reject) => {
      const socket = connect({ path: this.#path, allowHalfOpen: true });
      // Stays: who uses the socket from here on sees its close.
      socket.on('error', reject);
      socket.once('connect', () => {
        socket.write(`${JSON.stringify(request)}\n`, (error) => (error ? reject(error) : resolve(socket)));
      });
    });
  }
}

interface Answer {
  readonly ok?: true;
  readonly error?: string;
  readonly kind?: FileKind;
}

/** Reads the answer line and leaves the rest of the bytes in the socket. */
function answer(socket: Socket): Promise<Answer> {
  return new Promise((resolve, reject) => {
    let buffer: Buffer = Buffer.alloc(0);
    const fail = (error?: Error) => {
      socket.destroy();
      reject(error ?? new Error('the supervisor closed the connection'));
    };
    const onData = (chunk: Buffer) => {
      buffer = Buffer.concat([buffer, chunk]);
      const end = buffer.indexOf(10);
      if (end < 0) return;
      socket.off('data', onData).off('error', fail).off('end', fail).pause();
      if (buffer.length > end + 1) socket.unshift(buffer.subarray(end + 1));
      const line = JSON.parse(buffer.subarray(0, end).toString()) as Answer;
      if (line.error === undefined) return resolve(line);
      socket.destroy();
      reject(new Error(line.error));
    };
    socket.on('data', onData).once('error', fail).once('end', fail);
  });
}

const killed: RunExit = { exitCode: 137, error: 'the sandbox was killed' };

class SupervisedRun implements Run {
  readonly stdin: Writable;
  readonly stdout = new PassThrough();
  readonly stderr = new PassThrough();
  readonly exit: Promise<RunExit>;
  readonly started: Promise<void>;
  readonly #socket: Socket;
  #settleExit!: (exit: RunExit) => void;
  #settleStarted!: { resolve: () => void; reject: (error: Error) => void };
  #ended = false;

  constructor(socket: Socket) {
    this.#socket = socket;
    this.exit = new Promise((resolve) => {
      this.#settleExit = resolve;
    });
    this.started = new Promise((resolve, reject) => {
      this.#settleStarted = { resolve, reject };
    });
    this.stdin = new Writable({
      write: (chunk: Buffer, _encoding, done) => this.#send(toSupervisor.stdin, chunk, done),
      final: (done) => this.#send(toSupervisor.stdinEnd, Buffer.alloc(0), done),
    });
    // Whoever feeds a process that has ended loses the bytes, as with a pipe whose reader is gone.
    this.stdin.on('error', () => this.stdin.destroy());
    for (const output of [this.stdout, this.stderr]) output.on('drain', () => socket.resume());
    this.#read();
    socket.on('error', () => socket.destroy());
    socket.on('close', () => this.#end(killed));
    // Half-open as it is, the socket does not close by itself. Without an exit frame the supervisor died, and with it everything that it ran.
    socket.on('end', () => this.#end(killed));
  }

  signal(name: NodeJS.Signals, onlyIfCaught: boolean): void {
    this.#send(toSupervisor.signal, Buffer.from(JSON.stringify({ signal: name, onlyIfCaught })));
  }

  resize(columns: number, rows: number): void {
    this.#send(toSupervisor.resize, Buffer.from(JSON.stringify({ columns, rows })));
  }

  kill(): void {
    this.#socket.destroy();
  }

  #send(type: number, payload: Buffer, done?: (error?: Error | null) => void): void {
    if (this.#ended || !this.#socket.writable) {
      done?.();
      return;
    }
    const head = Buffer.alloc(5);
    head[0] = type;
    head.writeUInt32BE(payload.length, 1);
    this.#socket.cork();
    this.#socket.write(head);
    this.#socket.write(payload, (error) => done?.(error));
    this.#socket.uncork();
  }

  #read(): void {
    let buffer: Buffer = Buffer.alloc(0);
    this.#socket.on('data', (chunk: Buffer) => {
      buffer = buffer.length === 0 ? chunk : Buffer.concat([buffer, chunk]);
      let offset = 0;
      while (buffer.length - offset >= 5) {
        const end = offset + 5 + buffer.readUInt32BE(offset + 1);
        if (buffer.length < end) break;
        this.#frame(buffer[offset] as number, buffer.subarray(offset + 5, end));
        offset = end;
      }
      buffer = buffer.subarray(offset);
    });
  }

  #frame(type: number, payload: Buffer): void {
    if (type === fromSupervisor.started) this.#settleStarted.resolve();
    else if (type === fromSupervisor.exit) this.#end(JSON.parse(payload.toString()) as RunExit);
    else {
      const output = type === fromSupervisor.stdout ? this.stdout : this.stderr;
      if (!output.write(payload)) this.#socket.pause();
    }
  }

  #end(exit: RunExit): void {
    if (this.#ended) return;
    this.#ended = true;
    this.stdout.end();
    this.stderr.end();
    this.#settleStarted.reject(new Error(exit.error ?? 'ended'));
    this.#settleExit(exit);
    this.#socket.destroySoon();
  }
}
