import { spawn } from 'node:child_process';
import { closeSync, openSync } from 'node:fs';
import { mkdir, mkdtemp, readdir, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { fileURLToPath } from 'node:url';
import { Failure } from '../lib/run-command.mjs';
import { endProcess } from './processes.mjs';

/**
 * The demo's folder and the processes it started. They live in sessions of their own, so that a Ctrl-C reaches the demo
 * alone, which then ends them in order; a janitor does it when the demo itself is killed. They write to files, since
 * a pipe would break with the demo and take them down half-way.
 */
export async function openServices() {
  const folder = await mkdtemp(join(tmpdir(), 'windlass-demo-'));
  const scratch = join(folder, 'tmp');
  await mkdir(scratch);
  const janitor = spawn(process.execPath, [fileURLToPath(new URL('janitor.mjs', import.meta.url)), folder], {
    stdio: ['pipe', 'ignore', 'inherit'],
    detached: true,
  });
  const janitorEnd = new Promise((resolve) => janitor.once('exit', resolve));
  const services = [];

  /** Starts a program; `ready` gets its output so far and answers with a value once it is up. */
  async function start(name, program, args, { env = process.env, ready }) {
    const out = openSync(join(folder, `${name}.out`), 'a');
    const log = openSync(join(folder, `${name}.log`), 'a');
    const child = spawn(program, args, {
      cwd: folder,
      env: { ...env, TMPDIR: scratch },
      stdio: ['ignore', out, log],
      detached: true,
    });
    closeSync(out);
    closeSync(log);
    const failed = new Promise((resolve) => child.once('error', resolve));
    if (child.pid === undefined) throw new Failure(`${name} cannot be run: ${(await failed).message}`, 1);
    janitor.stdin.write(`+${child.pid}\n`);
    services.push({ name, child });
    return untilReady(name, child, ready);
  }

  async function untilReady(name, child, ready) {
    const deadline = Date.now() + 60_000;
    for (;;) {
      const output = `${await readFile(join(folder, `${name}.out`), 'utf8')}${await readFile(join(folder, `${name}.log`), 'utf8')}`;
      const value = await ready(output);
      if (value !== undefined) return value;
      const ended = child.exitCode ?? child.signalCode;
      if (ended !== null) throw new Failure(`${name} ended with ${ended}:\n${output.slice(-4000)}`, 1);
      if (Date.now() > deadline) throw new Failure(`${name} was not ready within 60 s:\n${output.slice(-4000)}`, 1);
      await delay(25);
    }
  }

  /** Ends all processes, the last started first, and answers with the folders that they left behind. */
  async function stop() {
    for (const { child } of [...services].reverse()) {
      await endProcess(child.pid);
      janitor.stdin.write(`-${child.pid}\n`);
    }
    return readdir(scratch);
  }

  /** Removes the folder; the janitor, with nothing left to do, ends. */
  async function close() {
    await rm(folder, { recursive: true, force: true });
    janitor.stdin.end();
    await janitorEnd;
  }

  /** A short-lived program of the demo's own: the janitor ends it, should the demo be killed meanwhile. */
  function track(child) {
    if (child.pid === undefined) return;
    janitor.stdin.write(`+${child.pid}\n`);
    child.once('exit', () => janitor.stdin.writable && janitor.stdin.write(`-${child.pid}\n`));
  }

  return { folder, start, track, stop, close, pids: () => services.map(({ child }) => child.pid) };
}
