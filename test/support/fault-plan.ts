import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { stringify } from 'yaml';
import { type EmbeddedCluster, startCluster } from './cluster.ts';

/** An embedded cluster whose API server misbehaves for as long as a test wants it to. */
export interface FaultyCluster extends EmbeddedCluster {
  /** These rules from now on, for as long as `during` takes. */
  withFaults<T>(rules: readonly object[], during: () => Promise<T>): Promise<T>;
}

export async function startFaultyCluster(options: { readonly auditLog?: string } = {}): Promise<FaultyCluster> {
  const dir = await mkdtemp(join(tmpdir(), 'windlass-fault-plan-'));
  const faults = join(dir, 'faults.yaml');
  const write = (rules: readonly object[]) => writeFile(faults, stringify({ rules }));
  await write([]);
  const cluster = await startCluster({ ...options, faults });
  return {
    ...cluster,
    async withFaults(rules, during) {
      await write(rules);
      try {
        return await during();
      } finally {
        await write([]);
      }
    },
    async close() {
      await cluster.close();
      await rm(dir, { recursive: true, force: true });
    },
  };
}
