import type { ChildProcess } from 'node:child_process';

const alive = new Set<ChildProcess>();

process.on('exit', () => {
  for (const child of alive) child.kill('SIGKILL');
});

/** A process that ends, however it ends but by SIGKILL, must not leave this child behind. */
export function endWithUs(child: ChildProcess): void {
  alive.add(child);
  child.once('exit', () => alive.delete(child));
}
