import type { ChildProcess } from 'node:child_process';

/** Settles when the supervisor listens; rejects with what it (or bwrap) wrote when it ends before. */
export function supervisorReady(child: ChildProcess): Promise<void> {
  return new Promise((resolve, reject) => {
    let complaint = '';
    child.stdin?.on('error', () => child.stdin?.destroy());
    child.stderr?.on('data', (chunk: Buffer) => {
      if (complaint.length < 4096) complaint += chunk;
    });
    child.stdout?.on('data', () => resolve());
    child.once('error', reject);
    child.once('close', (code) => reject(new Error(complaint.trim() || `the supervisor ended with code ${code}`)));
  });
}
