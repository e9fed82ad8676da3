import { monotonicMs, sleep } from '../clock.ts';
import { asWindlassError, WindlassError } from '../errors.ts';
import type { Forward } from '../kubernetes/port.ts';
import {
  type AgentPod,
  openChannel,
  rememberedTransport,
  rememberTransport,
  type Transport,
  transportsOf,
} from './agent-channel.ts';
import { agentClient } from './agent-instance.ts';
import { judge } from './pod-judge.ts';
import type { StageContext } from './stage.ts';

export interface Reached {
  readonly transport: Transport;
  readonly channel: Forward;
}

/** An agent that starts slowly refuses every way alike: only after so long may the first way be what does not work. */
const fallbackAfterMs = 3000;
const tryMs = 5000;

/**
 * A channel through which the agent answers. A way that cannot be opened or dies is opened again in the next round, and a
 * Pod that fails meanwhile is looked at in every round. Ends with the stage's signal; the caller closes the channel.
 */
export async function reachAgent(context: StageContext): Promise<Reached> {
  const { name: cluster, pods } = context.cluster;
  // Of the Pod itself: a webhook may have set it.
  const spec = pods.get(context.record().pod?.name ?? '')?.spec ?? context.template.template?.spec;
  const runtimeClass = spec?.runtimeClassName ?? '';
  const remembered = await rememberedTransport(context.shelf, cluster, runtimeClass);
  const known = context.record().agent?.transport;
  const ways = transportsOf(context.profile, known, remembered);
  const reached = await firstThatWorks(context, ways);
  if (ways.length > 1 && reached.transport !== (remembered ?? 'port_forward'))
    await rememberTransport(context.shelf, cluster, runtimeClass, reached.transport);
  return reached;
}

async function firstThatWorks(context: StageContext, [first, other]: readonly Transport[]): Promise<Reached> {
  const began = monotonicMs();
  const trouble = new Map<Transport, WindlassError>();
  const works = (way: Transport, tried: Reached | WindlassError): tried is Reached => {
    if (!(tried instanceof Error)) return true;
    trouble.set(way, tried);
    return false;
  };
  try {
    for (let pause = 25; ; pause = Math.min(pause * 2, 1000)) {
      const tried = await attempt(context, first!);
      if (works(first!, tried)) return tried;
      if (other !== undefined && (refused(tried) || monotonicMs() - began > fallbackAfterMs)) {
        const instead = await fallBack(context, first!, other);
        if (works(other, instead)) return instead;
      }
      // Nobody grants a right in the middle of a launch.
      if ((other === undefined || trouble.has(other)) && [...trouble.values()].every(refused)) throw tried;
      await judge(context);
      await sleep(pause, context.stageSignal);
    }
  } catch (error) {
    throw withTrouble(error, trouble);
  }
}

const refused = (error: WindlassError): boolean => error.code === 'permission_denied';

/** That the time is up says nothing to who has to repair it: what stood in the way does. */
function withTrouble(error: unknown, trouble: ReadonlyMap<Transport, WindlassError>): unknown {
  if (!(error instanceof WindlassError) || error.code !== 'launch_deadline' || trouble.size === 0) return error;
  const ways = Object.fromEntries([...trouble].map(([way, { message }]) => [way, message]));
  const words = Object.entries(ways).map(([way, message]) => `${way}: ${message}`);
  const evidence = { ...error.evidence, ways };
  return new WindlassError('launch_deadline', `${error.message} The agent could not be reached. ${words.join(' ')}`, {
    evidence,
  });
}

/** The first way gets one more chance once the agent is known to serve: it may just have been early. */
async function fallBack(context: StageContext, first: Transport, other: Transport): Promise<Reached | WindlassError> {
  const instead = await attempt(context, other);
  if (instead instanceof Error) return instead;
  const again = await attempt(context, first);
  if (again instanceof Error) return instead;
  await instead.channel.close();
  return again;
}

/** An error, when the agent does not answer this way (now). */
async function attempt(context: StageContext, transport: Transport): Promise<Reached | WindlassError> {
  let channel: Forward | undefined;
  try {
    channel = await openChannel(podOf(context), transport, { signal: context.stageSignal, instance: context.record().hash });
    const { protocol } = context.profile.agent;
    const client = agentClient(context.record(), protocol, { port: channel.port, trouble: channel.trouble });
    await client.health(AbortSignal.any([context.stageSignal, AbortSignal.timeout(tryMs)]));
    return { transport, channel };
  } catch (error) {
    const known = asWindlassError(error);
    await channel?.close();
    context.stageSignal.throwIfAborted();
    return known;
  }
}

export function podOf(context: StageContext): AgentPod {
  const { name = '', ip = '' } = context.record().pod ?? {};
  return { cluster: context.cluster, name, container: context.profile.mainContainer, ip };
}
