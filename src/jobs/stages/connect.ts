import type { AgentClient } from '../../agent/client.ts';
import { agentPort } from '../../agent/protocol.ts';
import { sleep } from '../../clock.ts';
import { asWindlassError, WindlassError } from '../../errors.ts';
import { sha256 } from '../../names.ts';
import { openChannel, type Transport } from '../agent-channel.ts';
import { agentClient, instanceRequest } from '../agent-instance.ts';
import { judge } from '../pod-judge.ts';
import { podOf, reachAgent } from '../reach-agent.ts';
import { endAgentctl } from '../restart-agentctl.ts';
import { checkpointOf, foundAsLeft } from '../resume.ts';
import type { Stage, StageContext, StageOutcome } from '../stage.ts';
import { runningSet } from '../take-up.ts';

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
  const { protocol } = context.profile.agent;
  try {
    const token = await shakeHands(context, channel.port);
    const request = instanceRequest(context.record(), protocol);
    const instance = await clientAt(context, channel.port, token).ensureInstance(request, context.stageSignal);
    if (instance.port !== agentPort) await instanceServes(context, transport, instance.port);
    await context.save({}, 'connected');
    const agent = { id: instance.id, port: instance.port, transport, state: 'healthy' } as const;
    return { kind: 'done', write: { set: { agent: protocol === 'agentctl' ? { ...agent, protocol } : agent } } };
  } finally {
    await channel.close();
  }
}

/** An agentctl serves each instance at a port of its own, which has to be reachable as well. */
async function instanceServes(context: StageContext, transport: Transport, podPort: number): Promise<void> {
  const channel = await openChannel(podOf(context), transport, { signal: context.stageSignal, podPort });
  try {
    const { port, trouble } = channel;
    await agentClient(context.record(), context.profile.agent.protocol, { port, trouble }).health(context.stageSignal);
  } finally {
    await channel.close();
  }
}

const clientAt = (context: StageContext, port: number, token?: string): AgentClient =>
  agentClient(context.record(), context.profile.agent.protocol, { port, token });

/**
 * The token is stored encrypted in the write right after the handshake (design §4). A lost answer is harmless: the same
 * client key gets the same token again, and an agentctl, whose nonce is burnt by then, is started anew.
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
  const token = await askForToken(context, port, nonce);
  await context.save({ secrets: { agentToken: await context.keyring.encrypt(token, hash) } });
  return token;
}

async function askForToken(context: StageContext, port: number, nonce: string): Promise<string> {
  try {
    const request = { nonce, clientKey: clientKey(context, nonce) };
    return await clientAt(context, port).handshake(request, context.stageSignal);
  } catch (error) {
    const burnt = context.profile.agent.protocol === 'agentctl' && asWindlassError(error).evidence?.status === 403;
    if (!burnt) throw error;
    await restartAgentctl(context);
    throw new WindlassError(
      'forward_lost',
      'The agent had given its token to somebody who did not keep it; it is started anew.',
      {
        cause: error,
      },
    );
  }
}

/** Once per run: an agent that refuses the nonce of its own Pod again is not ours. */
async function restartAgentctl(context: StageContext): Promise<void> {
  const { pod, hash } = context.record();
  if (pod === null || checkpointOf(context.record(), 'connect') === agentRestarted)
    throw new WindlassError('handshake_failed', 'The agent refuses the nonce of its own Pod, also after it was started anew.');
  context.lease.assertHeld();
  const target = { pod: pod.name, container: context.profile.mainContainer };
  await endAgentctl(context.cluster, target, { signal: context.stageSignal, instance: hash });
  for (;;) {
    const verdict = await judge(context);
    // Recorded at once: a restart of our own must not look like somebody else's.
    if (verdict.kind === 'running' && verdict.containerId !== pod.main?.id)
      return context.save({ set: runningSet(context, pod, verdict) }, agentRestarted);
    await sleep(reopenMs, context.stageSignal);
  }
}

const agentRestarted = 'agent_restarted';

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
