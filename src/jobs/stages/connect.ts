import { type AgentClient, createAgentClient } from '../../agent/client.ts';
import { sleep } from '../../clock.ts';
import { asWindlassError, WindlassError } from '../../errors.ts';
import { sha256 } from '../../names.ts';
import { instanceRequest } from '../agent-instance.ts';
import { judge } from '../pod-judge.ts';
import { reachAgent } from '../reach-agent.ts';
import { foundAsLeft } from '../resume.ts';
import type { Stage, StageContext, StageOutcome } from '../stage.ts';

/** Control channel, handshake, agent instance: after this the instance can be worked with. */
export const connect: Stage = {
  name: 'connect',
  budget: (profile) => profile.budgets.connect,

  async apply(context) {
    for (;;) {
      try {
        return await connectOnce(context);
      } catch (error) {
        // The channel died after the agent had answered. All that is asked of it may be asked again.
        if (asWindlassError(error).code !== 'forward_lost') throw error;
        context.stageSignal.throwIfAborted();
        context.log.info({ instance: context.record().hash, err: error }, 'the channel to the agent broke; it is opened again');
      }
      await judge(context);
      await sleep(reopenMs, context.stageSignal);
    }
  },
};

const reopenMs = 250;

async function connectOnce(context: StageContext): Promise<StageOutcome> {
  const { transport, channel } = await reachAgent(context);
  try {
    const token = await shakeHands(context, channel.port);
    const client = clientAt(context, channel.port, token);
    const instance = await client.ensureInstance(instanceRequest(context.record()), context.stageSignal);
    await context.save({}, 'connected');
    return { kind: 'done', write: { set: { agent: { id: instance.id, port: instance.port, transport, state: 'healthy' } } } };
  } finally {
    await channel.close();
  }
}

function clientAt(context: StageContext, port: number, token?: string): AgentClient {
  const { instanceId } = context.record();
  return createAgentClient({ host: '127.0.0.1', port, instanceId, ...(token === undefined ? {} : { token }) });
}

/**
 * The token is stored encrypted in the write right after the handshake (design §4); a lost answer is harmless, because
 * the same client key gets the same token again.
 */
async function shakeHands(context: StageContext, port: number): Promise<string> {
  const { hash } = context.record();
  const secrets = await context.inventory.secrets(hash);
  if (secrets.agentToken !== undefined) {
    const stored = await context.keyring.decrypt(secrets.agentToken, hash);
    if (await accepts(context, port, stored)) return stored;
    if (foundAsLeft(context.record())) {
      throw new WindlassError(
        'handshake_failed',
        'The agent refuses the recorded token, although its container was not started anew.',
      );
    }
  }
  if (secrets.agentNonce === undefined)
    throw new WindlassError('handshake_failed', 'The secret for the handshake with the agent is missing.');
  const nonce = await context.keyring.decrypt(secrets.agentNonce, hash);
  const token = await clientAt(context, port).handshake({ nonce, clientKey: clientKey(context, nonce) }, context.stageSignal);
  await context.save({ secrets: { agentToken: await context.keyring.encrypt(token, hash) } });
  return token;
}

/** The same for every worker and attempt on this Pod, and useless to who does not have the nonce. */
const clientKey = (context: StageContext, nonce: string): string =>
  sha256(`windlass client ${context.config.installation} ${nonce}`);

async function accepts(context: StageContext, port: number, token: string): Promise<boolean> {
  try {
    await clientAt(context, port, token).instance(context.stageSignal);
    return true;
  } catch (error) {
    if (error instanceof WindlassError && error.code === 'handshake_failed') return false;
    throw error;
  }
}
