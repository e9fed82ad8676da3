import { existsSync, lstatSync, mkdirSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';

const lockName = 'windlass-node.lock';

interface Lock {
  readonly pid: number;
  /** The process' start, since pids come again. */
  readonly started: string;
}

/** When a process started, as the kernel counts; empty where that cannot be known. */
function startOf(pid: number): string {
  try {
    return (
      readFileSync(`/proc/${pid}/stat`, 'latin1')
        .replace(/^.*\) /s, '')
        .split(' ')[19] ?? ''
    );
  } catch {
    return '';
  }
}

function isAlive({ pid, started }: Lock): boolean {
  try {
    process.kill(pid, 0);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ESRCH') return false;
  }
  return startOf(pid) === started;
}

function readLock(folder: string): Lock | undefined {
  const file = join(folder, lockName);
  if (!existsSync(file)) return undefined;
  try {
    return JSON.parse(readFileSync(file, 'utf8')) as Lock;
  } catch {
    // Written half: its writer died at it.
    return { pid: 0, started: '?' };
  }
}

/**
 * Takes the folder for this process, and clears what clusters that were killed left: in it, and in the folders beside it
 * that carry a dead cluster's lock. Throws when a living cluster has it.
 */
export function takeDataFolder(folder: string): void {
  mkdirSync(folder, { recursive: true, mode: 0o700 });
  const lock = readLock(folder);
  if (lock !== undefined && lock.pid !== process.pid && isAlive(lock))
    throw new Error(`${folder} is in use by the cluster with pid ${lock.pid}`);
  if (lock !== undefined)
    for (const name of ['pods', 'claims', 's']) rmSync(join(folder, name), { recursive: true, force: true });
  writeFileSync(join(folder, lockName), JSON.stringify({ pid: process.pid, started: startOf(process.pid) } satisfies Lock));
  removeStaleSiblings(folder);
}

function removeStaleSiblings(folder: string): void {
  const parent = dirname(folder);
  const prefix = basename(folder)
    .replace(/[^-]*$/, '')
    .replace(/\d+-$/, '');
  if (prefix === '') return;
  for (const name of readdirSync(parent)) {
    const other = join(parent, name);
    if (other === folder || !name.startsWith(prefix)) continue;
    const entry = lstatSync(other, { throwIfNoEntry: false });
    if (!entry?.isDirectory() || entry.uid !== process.getuid?.()) continue;
    const lock = readLock(other);
    if (lock !== undefined && !isAlive(lock)) rmSync(other, { recursive: true, force: true });
  }
}
