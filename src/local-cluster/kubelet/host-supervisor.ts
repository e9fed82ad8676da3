import { spawn } from 'node:child_process';
import { existsSync, mkdtempSync } from 'node:fs';
import { basename, join } from 'node:path';
import { SupervisorClient } from './supervisor-client.ts';

/**
 * The supervisor outside all sandboxes. It forks in the API server's place, which would stand still for it, and it outlives
 * a cluster that is killed for as long as it takes to end the Pods and remove their files.
 */
export interface HostSupervisor {
  readonly client: SupervisorClient;
  /** A folder in memory where the machine has one, for memory volumes without a sandbox. */
  readonly memoryRoot: string;
  close(): Promise<void>;
}

/** `program` is supervisor.mjs; `remove` are the folders that go with the cluster. */
export async function startHostSupervisor(program: string, dataDir: string, remove: readonly string[]): Promise<HostSupervisor> {
  // Short on purpose: a unix socket's path holds 103 bytes on macOS, and the data may lie deep.
  const folder = mkdtempSync(join(existsSync('/tmp') ? '/tmp' : dataDir, 'wl-'));
  const memoryRoot = join(existsSync('/dev/shm') ? '/dev/shm' : dataDir, basename(folder));
  const socket = join(folder, 's');
  const config = JSON.stringify({ socket, paths: true, pipes: join(folder, 'p'), remove: [folder, memoryRoot, ...remove] });
  const child = spawn(process.execPath, [program, config], { stdio: ['pipe', 'pipe', 'pipe'], detached: true });
  let complaint = '';
  child.stdin.on('error', () => child.stdin.destroy());
  child.stderr.on('data', (chunk: Buffer) => {
    if (complaint.length < 4096) complaint += chunk;
  });
  const ended = new Promise<void>((resolve) => child.once('close', () => resolve()));
  await new Promise<void>((resolve, reject) => {
    child.stdout.once('data', () => resolve());
    child.once('error', reject);
    child.once('close', (code) => reject(new Error(`the supervisor of the Pods ended with code ${code}: ${complaint.trim()}`)));
  });
  return {
    client: new SupervisorClient(socket),
    memoryRoot,
    async close() {
      child.stdin.end();
      await ended;
    },
  };
}
