import { spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Failure } from '../lib/run-command.mjs';
import { endProcess } from './processes.mjs';

const readyWithinMs = 60_000;

/**
 * The demo's folder and the processes it started. Services live in sessions of their own, so that a Ctrl-C reaches the
 * demo alone, which then ends them in order; a janitor does it when the demo itself is killed. They write to files: a
 * pipe would break with the demo and take them down half-way.
 */
export class Services {
  folder;
  #scratch;
  #janitor;
  #janitorEnd;
  #services = [];
  #helpers = new Set();
  #stopping = false;

  static async open() {
    const services = new Services();
    services.folder = await mkdtemp(join(tmpdir(), 'windlass-demo-'));
    services.#scratch = join(services.folder, 'tmp');
    await mkdir(services.#scratch);
    services.#janitor = spawn(process.execPath, [fileURLToPath(new URL('janitor.mjs', import.meta.url)), services.folder], {
      stdio: ['pipe', 'ignore', 'inherit'],
      detached: true,
    });
    services.#janitorEnd = new Promise((resolve) => services.#janitor.once('exit', resolve));
    return services;
  }

  /** Starts a service; `ready` gets its output so far and answers with a value once it is up. */
  async start(name, program, args, { env = {}, ready }) {
    const out = openSync(this.#file(name, 'out'), 'a');
    const log = openSync(this.#file(name, 'log'), 'a');
    const child = this.#spawn(program, args, { env, stdio: ['ignore', out, log], detached: true });
    closeSync(out);
    closeSync(log);
    this.#services.push(child);
    return this.#untilReady(name, child, ready);
  }

  /** Starts a short-lived program whose output is read through pipes. */
  spawn(program, args, env) {
    const child = this.#spawn(program, args, { env, stdio: ['ignore', 'pipe', 'pipe'] });
    this.#helpers.add(child);
    child.once('exit', () => this.#helpers.delete(child));
    return child;
  }

  get pids() {
    return this.#services.map((child) => child.pid);
  }

  /** Ends everything, the last started service first; nothing can be started any more. Answers with the folders left behind. */
  async stop() {
    this.#stopping = true;
    for (const child of [...this.#helpers, ...this.#services.toReversed()]) await endProcess(child.pid);
    return readdir(this.#scratch);
  }

  /** Removes the folder; the janitor, with nothing left to do, ends. */
  async close() {
    await rm(this.folder, { recursive: true, force: true });
    this.#janitor.stdin.end();
    await this.#janitorEnd;
  }

  #spawn(program, args, { env, stdio, detached = false }) {
    if (this.#stopping) throw new Failure(`The demo is ending: ${program} is not started.`, 1);
    const child = spawn(program, args, {
      cwd: this.folder,
      env: { ...process.env, ...env, TMPDIR: this.#scratch },
      stdio,
      detached,
    });
    if (child.pid === undefined) {
      child.once('error', () => undefined);
      throw new Failure(`${program} cannot be run.`, 1);
    }
    this.#janitor.stdin.write(`+${child.pid}\n`);
    child.once('exit', () => {
      if (this.#janitor.stdin.writable) this.#janitor.stdin.write(`-${child.pid}\n`);
    });
    return child;
  }

  async #untilReady(name, child, ready) {
    const deadline = performance.now() + readyWithinMs;
    for (;;) {
      const output = `${await readFile(this.#file(name, 'out'), 'utf8')}${await readFile(this.#file(name, 'log'), 'utf8')}`;
      const value = ready(output);
      if (value !== undefined) return value;
      const ended = child.exitCode ?? child.signalCode;
      if (ended !== null) throw new Failure(`${name} ended with ${ended}:\n${output.slice(-4000)}`, 1);
      if (performance.now() > deadline) throw new Failure(`${name} was not ready within 60 s:\n${output.slice(-4000)}`, 1);
      await delay(25);
    }
  }

  #file(name, kind) {
    return join(this.folder, `${name}.${kind}`);
  }
}
