import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { poll } from '../../../src/clock.ts';
import type { LoadedConfig } from '../../../src/config/load.ts';
import { endWithUs } from '../children.ts';
import { root } from '../root.ts';
import { built } from '../world.ts';

/** A worker process that is loaded, but takes jobs only after `start`. */
export interface Victim {
  readonly process: ChildProcess;
  /** Resolves once it takes jobs. */
  start(): Promise<void>;
  /** At this effect it kills, stops or terminates itself, or blocks its event loop for six seconds. */
  at(point: string, act: 'kill' | 'stop' | 'block' | 'term'): Promise<void>;
  /** It kills or terminates itself at the first effect that no other victim of this hunt did it at. */
  hunts(hunt: Hunt, act: 'kill' | 'term'): Promise<void>;
  /** Resolves when it has been stopped or blocked. */
  halted(): Promise<void>;
  /** Calls back with each of its effects, `before redis.begin#1`. */
  watch(seen: (point: string) => void): Promise<void>;
  /** The last of what it has logged. */
  log(): string;
  /** Resolves once it has logged these words. */
  says(words: string): Promise<void>;
  /** Resolves with exit code and signal when it is dead, however that came. */
  readonly dead: Promise<unknown[]>;
  /** Ends it if it lives. */
  end(): Promise<void>;
}

/** What the victims of one scenario share. */
export interface Hunt {
  /** One file for each point that one of them died at; `<pid>.point` holds that of one victim. */
  readonly folder: string;
  /** Points that are left alone, such as those that timers repeat for as long as time goes by. */
  readonly repeats: RegExp;
  /** So many effects are let pass first, new or not. */
  readonly skip: number;
}

/** Loading takes most of a worker's start: the next victim is made ready while the present one works. */
export async function standby(loaded: LoadedConfig, queues: string, env: Record<string, string> = {}): Promise<Victim> {
  await built();
  const args = ['--import', join(import.meta.dirname, 'standby.mjs'), join(root, 'dist/cli/main.js')];
  const child = spawn(process.execPath, [...args, 'worker', '--config', loaded.file, '--queues', queues], {
    cwd: root,
    env: { ...process.env, WINDLASS__LOG__LEVEL: 'info', ...env },
    stdio: ['ignore', 'ignore', 'pipe', 'ipc'],
  });
  endWithUs(child);
  const dead = once(child, 'exit');
  const log = logOf(child);
  const answer = (word: string) =>
    until(child, log, (done) => child.on('message', (message: Record<string, unknown>) => message[word] === true && done()));
  await answer('warm');
  const send = async (message: object, word: string) => {
    const answered = answer(word);
    child.send(message);
    await answered;
  };
  return {
    process: child,
    dead,
    async start() {
      const taking = until(child, log, (done) => log.onLine('worker started', done));
      child.send({ start: true });
      await taking;
    },
    at: (point, act) => send({ at: point, act }, 'armed'),
    hunts: (hunt, act) => send({ hunt: { ...hunt, repeats: hunt.repeats.source }, act }, 'armed'),
    async halted() {
      let blocked = false;
      child.once('message', () => {
        blocked = true;
      });
      const stopped = async () => / T /.test(await readFile(`/proc/${child.pid}/stat`, 'utf8'));
      if (!(await poll(async () => blocked || (await stopped()), { everyMs: 20, forMs: 30_000 })))
        throw new Error(`it never halted:\n${log.text}`);
    },
    log: () => log.text,
    says: (words) => until(child, log, (done) => log.onLine(words, done)),
    async watch(seen) {
      child.on('message', (message: { point?: string }) => message.point !== undefined && seen(message.point));
      await send({ watch: true }, 'armed');
    },
    async end() {
      child.kill('SIGKILL');
      await dead;
    },
  };
}

interface Log {
  text: string;
  onLine(words: string, done: () => void): void;
}

function logOf(child: ChildProcess): Log {
  const log: Log = {
    text: '',
    onLine(words, done) {
      if (log.text.includes(words)) done();
      else child.stderr?.on('data', () => log.text.includes(words) && done());
    },
  };
  child.stderr?.setEncoding('utf8').on('data', (text: string) => {
    log.text = (log.text + text).slice(-20_000);
  });
  return log;
}

/** What is waited for, or an error with the worker's log when it dies before that or takes too long. */
function until(child: ChildProcess, log: Log, listen: (done: () => void) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => reject(new Error(`the worker is not there after 60 s:\n${log.text}`)), 60_000);
    const ended = (code: number | null) => reject(new Error(`the worker ended with ${code}:\n${log.text}`));
    child.once('exit', ended);
    listen(() => {
      clearTimeout(timer);
      child.off('exit', ended);
      resolve();
    });
  });
}
