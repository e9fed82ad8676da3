import type { AgentClient } from '../agent/client.ts';
import { type CreateInstanceRequest, podPaths } from '../agent/protocol.ts';
import { poll } from '../clock.ts';
import { asWindlassError, WindlassError } from '../errors.ts';
import type { Inventory } from '../inventory/port.ts';
import type { InstanceRecord } from '../inventory/types.ts';

/** How long an agent whose container was just started anew may take until it serves. */
const serveWithinMs = 15_000;

/** What the agent is to hold for an instance: the same whoever asks, so that asking again finds it. */
export function instanceRequest(record: InstanceRecord): CreateInstanceRequest {
  const { command } = record.request.payload as { command?: readonly string[] };
  return { id: record.instanceId, workspace_path: podPaths.workspace, ...(command === undefined ? {} : { command }) };
}

/**
 * Before the first use after a container restart: waits until the agent serves and sees to it that it holds its instance.
 * One that does not serve lacks its start marker (a rebooted node empties the memory volume): only a run can bootstrap.
 */
export async function ensureIdleAgent(
  inventory: Inventory,
  record: InstanceRecord,
  client: AgentClient,
  signal?: AbortSignal,
): Promise<void> {
  if (record.agent?.state !== 'idle') return;
  const serves = await poll(() => answers(client, signal), {
    everyMs: 200,
    forMs: serveWithinMs,
    ...(signal === undefined ? {} : { signal }),
  });
  if (!serves) {
    throw new WindlassError(
      'handshake_failed',
      `The agent of "${record.instanceId}" does not serve since its container was started anew.`,
      {
        hint: '`windlass reconnect` sets it up again.',
      },
    );
  }
  await client.ensureInstance(instanceRequest(record), signal);
  await noteHealthy(inventory, record);
}

async function answers(client: AgentClient, signal: AbortSignal | undefined): Promise<boolean> {
  try {
    await client.health(signal);
    return true;
  } catch (error) {
    signal?.throwIfAborted();
    if (asWindlassError(error).code === 'forward_lost') return false;
    throw error;
  }
}

/** Only the same container is healthy now; who holds the lease finds that out without us. */
async function noteHealthy(inventory: Inventory, seen: InstanceRecord): Promise<void> {
  const lease = await inventory.tryLease(seen.hash);
  if (lease === undefined) return;
  try {
    const record = await inventory.readByHash(seen.hash);
    const same = record?.state === 'ready' && record.pod?.uid === seen.pod?.uid && record.pod?.main?.id === seen.pod?.main?.id;
    if (!same || record.agent?.state !== 'idle') return;
    const events = [{ type: 'reconnected', how: 'restarted', run: record.run }];
    await inventory.write(lease, { set: { agent: { ...record.agent, state: 'healthy' } }, events, release: true });
  } finally {
    await lease.release();
  }
}
