import { randomBytes } from 'node:crypto';
import type { InstanceInfo } from '../../agent/protocol.ts';
import { asWindlassError } from '../../errors.ts';
import type { InstanceRecord } from '../../inventory/types.ts';
import { openRecordedChannel } from '../agent-channel.ts';
import { agentClient } from '../agent-instance.ts';
import type { Pass } from './pass.ts';

/** Of one look into a Pod. */
const lookMs = 10_000;

type Inside = Pick<InstanceRecord, 'hash' | 'instanceId' | 'pod' | 'agent'>;

/**
 * What the agent says of its instance; undefined when it cannot be said. 'not asked' = somebody did within the last
 * `everySeconds`, or there is no agent: no instance is asked in every pass.
 */
export async function lookInside(
  pass: Pass,
  record: Inside,
  everySeconds: number,
): Promise<InstanceInfo | undefined | 'not asked'> {
  const token = await tokenOf(pass, record);
  if (token === undefined) return 'not asked';
  const turn = randomBytes(8).toString('hex');
  if ((await pass.shelf.putIfAbsent(`look-inside:${record.hash}`, turn, everySeconds)) !== turn) return 'not asked';
  return ask(pass, record, token);
}

/** The same, whoever asked last: many slow looks lie between one and what is done about it. */
export async function lookAgain(pass: Pass, record: Inside): Promise<InstanceInfo | undefined> {
  const token = await tokenOf(pass, record);
  return token === undefined ? undefined : ask(pass, record, token);
}

/** An agentctl does not tell when it was used last. */
async function tokenOf(pass: Pass, record: Inside): Promise<string | undefined> {
  if (record.pod === null || record.agent?.protocol === 'agentctl') return undefined;
  return (await pass.inventory.secrets(record.hash)).agentToken;
}

async function ask(pass: Pass, record: Inside, token: string): Promise<InstanceInfo | undefined> {
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
