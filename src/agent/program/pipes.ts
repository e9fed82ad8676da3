import { execFile, spawn } from 'node:child_process';
import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { closeSync, constants, openSync, rmSync } from 'node:fs';
import { Socket } from 'node:net';
import { join } from 'node:path';
import type { Readable, Writable } from 'node:stream';
import { promisify } from 'node:util';

const { O_RDONLY, O_WRONLY, O_NONBLOCK } = constants;

/** Our ends, and what to hand to the child: file descriptors of real pipes, to be closed here once it runs. */
export interface Pipes {
  readonly stdin: Writable | undefined;
  readonly stdout: Readable;
  readonly stderr: Readable;
  readonly childFds: readonly [number | 'ignore', number, number];
}

/**
 * Real pipes. Node gives a child socket pairs instead, and then every `> /dev/stderr` and `cat /dev/stdin` in a script
 * fails with "No such device or address", which does not happen under docker exec.
 * Undefined where they cannot be made (no mkfifo or /proc in the image): the caller then takes Node's own.
 */
export async function makePipes(folder: string, withStdin: boolean): Promise<Pipes | undefined> {
  const base = join(folder, `pipe-${randomBytes(8).toString('hex')}`);
  const paths = [`${base}-1`, `${base}-2`];
  const opened: number[] = [];
  try {
    await promisify(execFile)('mkfifo', ['-m', '600', ...paths]);
    const input = withStdin ? await inputPipe() : undefined;
    if (input) opened.push(input.ours, input.childs);
    const [out, err] = paths.map(outputPipe) as [Ends, Ends];
    return {
      stdin: input && new Socket({ fd: input.ours, readable: false, writable: true }),
      stdout: new Socket({ fd: out.ours, readable: true, writable: false }),
      stderr: new Socket({ fd: err.ours, readable: true, writable: false }),
      childFds: [input?.childs ?? 'ignore', out.childs, err.childs],
    };
  } catch {
    for (const fd of opened) closeSync(fd);
    return undefined;
  } finally {
    for (const path of paths) rmSync(path, { force: true });
  }
}

export function closeChildEnds(pipes: Pipes): void {
  for (const fd of pipes.childFds) if (typeof fd === 'number') closeSync(fd);
}

interface Ends {
  readonly ours: number;
  readonly childs: number;
}

/** The reader opens first and without blocking, so that opening the writer does not block either. */
function outputPipe(path: string): Ends {
  const ours = openSync(path, O_RDONLY | O_NONBLOCK);
  return { ours, childs: openSync(path, O_WRONLY) };
}

/**
 * Not a named pipe: whoever opens /dev/stdin after we have written all and closed would wait for a writer for ever. Only a
 * shell can make an anonymous one for us; both ends are opened through the process that holds it, which is then ended.
 */
async function inputPipe(): Promise<Ends> {
  const shell = spawn('/bin/sh', ['-c', "read line | sh -c 'echo $$; exec sleep 10'"], { stdio: ['pipe', 'pipe', 'ignore'] });
  const ended = once(shell, 'exit').then(() => {
    throw new Error('no pipe');
  });
  // Once the line was read, nobody waits for this any more, and the shell's end is then no fault.
  ended.catch(() => undefined);
  try {
    const [line] = (await Promise.race([once(shell.stdout, 'data'), ended])) as [Buffer];
    const holder = Number(line.toString());
    const path = `/proc/${holder}/fd/0`;
    const ours = openSync(path, O_WRONLY | O_NONBLOCK);
    const childs = openSync(path, O_RDONLY);
    process.kill(holder, 'SIGKILL');
    return { ours, childs };
  } finally {
    shell.stdin.destroy();
    shell.stdout.destroy();
  }
}
