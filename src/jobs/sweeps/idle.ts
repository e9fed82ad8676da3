import { randomBytes } from 'node:crypto';
import { createAgentClient } from '../../agent/client.ts';
import { asWindlassError } from '../../errors.ts';
import type { InstanceRecord } from '../../inventory/types.ts';
import { openRecordedChannel } from '../agent-channel.ts';
import type { Pass } from './pass.ts';

/** Of one look into a Pod. */
const lookMs = 10_000;

/**
 * Since when nothing happened in an instance (its own clock, which is its node's), or undefined when it cannot be said:
 * that counts as active (I20). 'not asked' = it was asked a short while ago, or has no agent.
 */
export async function idleSince(
  pass: Pass,
  record: Pick<InstanceRecord, 'hash' | 'instanceId' | 'pod' | 'agent' | 'readyAt'>,
  idleSeconds: number,
): Promise<number | undefined | 'not asked'> {
  const token = (await pass.inventory.secrets(record.hash)).agentToken;
  if (token === undefined || record.pod === null) return 'not asked';
  const turn = randomBytes(8).toString('hex');
  // A quarter of the idle time is exact enough, and no instance is asked in every pass.
  const every = Math.max(60, Math.round(idleSeconds / 4));
  if ((await pass.shelf.putIfAbsent(`idle-look:${record.hash}`, turn, every)) !== turn) return 'not asked';
  const signal = AbortSignal.any([pass.signal, AbortSignal.timeout(lookMs)]);
  try {
    const opened = await pass.keyring.decrypt(token, record.hash);
    const channel = await openRecordedChannel(pass.cluster, record, { signal, instance: record.hash });
    try {
      const client = createAgentClient({ host: '127.0.0.1', port: channel.port, token: opened, instanceId: record.instanceId });
      const info = await client.instance(signal);
      return info?.last_activity_at === undefined ? record.readyAt : Math.max(record.readyAt, Date.parse(info.last_activity_at));
    } finally {
      await channel.close();
    }
  } catch (error) {
    pass.signal.throwIfAborted();
    pass.log.info({ instance: record.hash, code: asWindlassError(error).code }, 'activity not known: counts as active');
    return undefined;
  }
}
