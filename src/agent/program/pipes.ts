import { execFile } from 'node:child_process';
import { randomBytes } from 'node:crypto';
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
 * Undefined where they cannot be made (no mkfifo in the image): the caller then takes Node's own.
 */
export async function makePipes(folder: string, withStdin: boolean): Promise<Pipes | undefined> {
  const base = join(folder, `pipe-${randomBytes(8).toString('hex')}`);
  const paths = [`${base}-1`, `${base}-2`, ...(withStdin ? [`${base}-0`] : [])];
  try {
    await promisify(execFile)('mkfifo', ['-m', '600', ...paths]);
  } catch {
    return undefined;
  }
  try {
    const [out, err] = [outputPipe(`${base}-1`), outputPipe(`${base}-2`)];
    const input = withStdin ? inputPipe(`${base}-0`) : undefined;
    return {
      stdin: input && new Socket({ fd: input.ours, readable: false, writable: true }),
      stdout: new Socket({ fd: out.ours, readable: true, writable: false }),
      stderr: new Socket({ fd: err.ours, readable: true, writable: false }),
      childFds: [input?.childs ?? 'ignore', out.childs, err.childs],
    };
  } finally {
    for (const path of paths) rmSync(path, { force: true });
  }
}

export function closeChildEnds(pipes: Pipes): void {
  for (const fd of pipes.childFds) if (typeof fd === 'number') closeSync(fd);
}

/** The reader opens first and without blocking, so that opening the writer does not block either. */
function outputPipe(path: string): { ours: number; childs: number } {
  const ours = openSync(path, O_RDONLY | O_NONBLOCK);
  return { ours, childs: openSync(path, O_WRONLY) };
}

/** O_NONBLOCK belongs to the open file: the child needs its own blocking one, opened while a first reader stands by. */
function inputPipe(path: string): { ours: number; childs: number } {
  const standby = openSync(path, O_RDONLY | O_NONBLOCK);
  const ours = openSync(path, O_WRONLY | O_NONBLOCK);
  const childs = openSync(path, O_RDONLY);
  closeSync(standby);
  return { ours, childs };
}
