import { createAgentClient } from '../../agent/client.ts';
import { agentPort } from '../../agent/protocol.ts';
import { monotonicMs, sleep } from '../../clock.ts';
import { asWindlassError, WindlassError } from '../../errors.ts';
import type { Forward } from '../../kubernetes/port.ts';
import { sha256 } from '../../names.ts';
import { instanceRequest } from '../agent-instance.ts';
import { judge } from '../pod-judge.ts';
import { foundAsLeft } from '../resume.ts';
import type { Stage, StageContext } from '../stage.ts';

/** Control channel, handshake, agent instance: after this the instance can be worked with. */
export const connect: Stage = {
  name: 'connect',
  budget: (profile) => profile.budgets.connect,

  async apply(context) {
    const pod = context.record().pod;
    if (pod === null) throw new WindlassError('invariant_broken', 'There is no recorded Pod to connect to.');
    const forward = await context.cluster.forward(pod.name, agentPort, {
      signal: context.stageSignal,
      instance: context.record().hash,
    });
    try {
      await untilHealthy(context, forward);
      const token = await shakeHands(context, forward.port);
      const client = createAgentClient({ host: '127.0.0.1', port: forward.port, token, instanceId: context.record().instanceId });
      const instance = await client.ensureInstance(instanceRequest(context.record()), context.stageSignal);
      await context.save({}, 'connected');
      return {
        kind: 'done',
        write: { set: { agent: { id: instance.id, port: instance.port, transport: 'port_forward', state: 'healthy' } } },
      };
    } finally {
      await forward.close();
    }
  },
};

/** The agent starts within a moment of the marker; a Pod that fails meanwhile is looked at in every round. */
async function untilHealthy(context: StageContext, forward: Forward): Promise<void> {
  const { port, trouble } = forward;
  const client = createAgentClient({ host: '127.0.0.1', port, instanceId: context.record().instanceId, trouble });
  const until = monotonicMs() + context.profile.budgets.connect * 1000;
  for (let pause = 25; ; pause = Math.min(pause * 2, 1000)) {
    try {
      await client.health(AbortSignal.any([context.stageSignal, AbortSignal.timeout(5000)]));
      return;
    } catch (error) {
      context.stageSignal.throwIfAborted();
      if (asWindlassError(error).code === 'permission_denied') throw error;
      await judge(context);
      if (monotonicMs() + pause > until) throw error;
    }
    await sleep(pause, context.stageSignal);
  }
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
  const client = createAgentClient({ host: '127.0.0.1', port, instanceId: context.record().instanceId });
  const token = await client.handshake({ nonce, clientKey: clientKey(context, nonce) }, context.stageSignal);
  await context.save({ secrets: { agentToken: await context.keyring.encrypt(token, hash) } });
  return token;
}

/** The same for every worker and attempt on this Pod, and useless to who does not have the nonce. */
const clientKey = (context: StageContext, nonce: string): string =>
  sha256(`windlass client ${context.config.installation} ${nonce}`);

async function accepts(context: StageContext, port: number, token: string): Promise<boolean> {
  const client = createAgentClient({ host: '127.0.0.1', port, token, instanceId: context.record().instanceId });
  try {
    await client.instance(context.stageSignal);
    return true;
  } catch (error) {
    if (error instanceof WindlassError && error.code === 'handshake_failed') return false;
    throw error;
  }
}
