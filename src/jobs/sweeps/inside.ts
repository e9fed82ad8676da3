import { randomBytes } from 'node:crypto';
import type { InstanceInfo } from '../../agent/protocol.ts';
import { asWindlassError } from '../../errors.ts';
import type { InstanceRecord } from '../../inventory/types.ts';
import { openRecordedChannel } from '../agent-channel.ts';
import { agentClient } from '../agent-instance.ts';
import type { Pass } from './pass.ts';

/** Of one look into a Pod. */
const lookMs = 10_000;

/**
 * What the agent says of its instance; undefined when it cannot be said. 'not asked' = somebody did within the last
 * `everySeconds`, or there is no agent: no instance is asked in every pass.
 */
export async function lookInside(
  pass: Pass,
  record: Pick<InstanceRecord, 'hash' | 'instanceId' | 'pod' | 'agent'>,
  everySeconds: number,
): Promise<InstanceInfo | undefined | 'not asked'> {
  const token = (await pass.inventory.secrets(record.hash)).agentToken;
  // An agentctl does not tell when it was used last.
  if (token === undefined || record.pod === null || record.agent?.protocol === 'agentctl') return 'not asked';
  const turn = randomBytes(8).toString('hex');
  if ((await pass.shelf.putIfAbsent(`look-inside:${record.hash}`, turn, everySeconds)) !== turn) return 'not asked';
  const signal = AbortSignal.any([pass.signal, AbortSignal.timeout(lookMs)]);
  try {
    const opened = await pass.keyring.decrypt(token, record.hash);
    const channel = await openRecordedChannel(pass.cluster, record, { signal, instance: record.hash });
    try {
      const client = agentClient(record, 'windlass', { port: channel.port, token: opened });
      return await client.instance(signal);
    } finally {
      await channel.close();
    }
  } catch (error) {
    pass.signal.throwIfAborted();
    pass.log.info({ instance: record.hash, code: asWindlassError(error).code }, 'could not look inside: counts as active');
    return undefined;
  }
}
