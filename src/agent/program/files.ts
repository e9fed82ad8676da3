import { randomBytes } from 'node:crypto';
import {
  closeSync,
  fchmodSync,
  fsyncSync,
  lstatSync,
  mkdirSync,
  openSync,
  readFileSync,
  renameSync,
  rmSync,
  writeSync,
} from 'node:fs';
import { dirname, join, resolve } from 'node:path';
import { Exit, exitCodes } from './settings.ts';

export function isMissing(error: unknown): boolean {
  return (error as NodeJS.ErrnoException).code === 'ENOENT';
}

/** The file's bytes; undefined when there is none. */
export function readIfThere(path: string): Buffer | undefined {
  try {
    return readFileSync(path);
  } catch (error) {
    if (isMissing(error)) return undefined;
    throw error;
  }
}

/** What we wrote as JSON earlier; undefined when there is none. A parser's own message would quote secrets into the log. */
export function readJsonIfThere(path: string): unknown {
  const text = readIfThere(path);
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text.toString());
  } catch {
    throw new Exit(exitCodes.configuration, `${path} is damaged`);
  }
}

/**
 * Makes the folder private if it is missing, and refuses a symlink or a file anywhere on the way to it: what runs in the
 * Pod must not be able to send our secrets elsewhere.
 */
export function safeFolder(path: string): void {
  const parts = resolve(path).split('/').filter(Boolean);
  let current = '/';
  for (const part of parts) {
    current = join(current, part);
    const found = lstatOrMake(current);
    if (found.isSymbolicLink()) throw new Exit(exitCodes.cannotCreate, `${current} is a symbolic link`);
    if (!found.isDirectory()) throw new Exit(exitCodes.cannotCreate, `${current} is not a directory`);
  }
}

function lstatOrMake(path: string) {
  try {
    return lstatSync(path);
  } catch (error) {
    if (!isMissing(error)) throw error;
    mkdirSync(path, { mode: 0o700 });
    return lstatSync(path);
  }
}

/** Whole or not at all, also after a power loss: temporary file in the same folder, fsync, rename, fsync of the folder. */
export function writeAtomic(path: string, data: string | Uint8Array, mode: number): void {
  const temporary = `${path}.${randomBytes(6).toString('hex')}.tmp`;
  const fd = openSync(temporary, 'wx', mode);
  try {
    try {
      writeAll(fd, typeof data === 'string' ? Buffer.from(data) : data);
      fchmodSync(fd, mode);
      fsyncSync(fd);
    } finally {
      closeSync(fd);
    }
    renameSync(temporary, path);
  } catch (error) {
    rmSync(temporary, { force: true });
    throw error;
  }
  syncFolder(dirname(path));
}

export function writeAll(fd: number, data: Uint8Array): void {
  for (let offset = 0; offset < data.byteLength; ) offset += writeSync(fd, data, offset);
}

function syncFolder(path: string): void {
  const fd = openSync(path, 'r');
  try {
    fsyncSync(fd);
  } finally {
    closeSync(fd);
  }
}
