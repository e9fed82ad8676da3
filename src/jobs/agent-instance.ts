import { createAgentctlClient } from '../agent/agentctl-client.ts';
import { type AgentAddress, type AgentClient, createAgentClient } from '../agent/client.ts';
import { type CreateInstanceRequest, podPaths } from '../agent/protocol.ts';
import { poll } from '../clock.ts';
import { asWindlassError, WindlassError } from '../errors.ts';
import type { Inventory } from '../inventory/port.ts';
import type { InstanceRecord } from '../inventory/types.ts';

/** How long an agent whose container was just started anew may take until it serves. */
const serveWithinMs = 15_000;

export type Protocol = 'windlass' | 'agentctl';

type Named = Pick<InstanceRecord, 'instanceId' | 'hash'>;

/** By what name the agent knows its instance. An agentctl compares ids as they stand in a header, which ours may not. */
const idOf = (record: Named, protocol: Protocol): string => (protocol === 'agentctl' ? record.hash : record.instanceId);

/** What the agent is to hold for an instance: the same whoever asks, so that asking again finds it. */
export function instanceRequest(
  record: Named & Pick<InstanceRecord, 'request'>,
  protocol: Protocol = 'windlass',
): CreateInstanceRequest {
  const { command } = record.request.payload as { command?: readonly string[] };
  return { id: idOf(record, protocol), workspace_path: podPaths.workspace, ...(command === undefined ? {} : { command }) };
}

type Place = Pick<AgentAddress, 'port' | 'trouble'> & { readonly token?: string | undefined };

/** The client of an instance's agent at the local end of a channel. */
export function agentClient(record: Named, protocol: Protocol, { port, token, trouble }: Place): AgentClient {
  const address = {
    host: '127.0.0.1',
    port,
    instanceId: idOf(record, protocol),
    ...(token === undefined ? {} : { token }),
    ...(trouble === undefined ? {} : { trouble }),
  };
  return protocol === 'agentctl' ? createAgentctlClient(address) : createAgentClient(address);
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
  if (record.agent.protocol === 'agentctl') throw startedAnew(record, 'has another token since its container was started anew');
  const serves = await poll(() => answers(client, signal), {
    everyMs: 200,
    forMs: serveWithinMs,
    ...(signal === undefined ? {} : { signal }),
  });
  if (!serves) {
    throw startedAnew(record, 'does not serve since its container was started anew');
  }
  await client.ensureInstance(instanceRequest(record), signal);
  await noteHealthy(inventory, record);
}

const startedAnew = (record: InstanceRecord, what: string): WindlassError =>
  new WindlassError('handshake_failed', `The agent of "${record.instanceId}" ${what}.`, {
    hint: '`windlass reconnect` sets it up again.',
  });

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
