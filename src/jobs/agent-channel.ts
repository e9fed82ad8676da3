import { relayCommand } from '../agent/boot.ts';
import { agentPort } from '../agent/protocol.ts';
import type { ProfileConfig } from '../config/schema.ts';
import { WindlassError } from '../errors.ts';
import type { Shelf } from '../inventory/shelf.ts';
import type { AgentRecord, InstanceRecord } from '../inventory/types.ts';
import type { CallOptions, Cluster, Forward } from '../kubernetes/port.ts';
import { addressForward, execForward } from '../kubernetes/relay.ts';

export type Transport = AgentRecord['transport'];

/** Where an agent is, as far as any way to it needs to know. */
export interface AgentPod {
  readonly cluster: Cluster;
  readonly name: string;
  readonly container: string;
  /** '' while not known; only pod_ip needs it. */
  readonly ip: string;
}

type ChannelOptions = CallOptions & {
  readonly localPort?: number;
  /** Inside the Pod; default the agent's. Exec reaches no other. */
  readonly podPort?: number;
};

/** A local port that ends at the agent. Every connection opens its way anew, so that one that broke is rebuilt by the next. */
export function openChannel(pod: AgentPod, transport: Transport, options: ChannelOptions = {}): Promise<Forward> {
  const { podPort = agentPort } = options;
  if (transport === 'port_forward') return pod.cluster.forward(pod.name, podPort, options);
  if (transport === 'exec') return execForward(pod.cluster, { pod: pod.name, container: pod.container }, relayCommand(), options);
  if (pod.ip === '') throw new WindlassError('forward_lost', 'The Pod has no address yet.');
  return addressForward(pod.ip, podPort, options);
}

/** To the agent of an instance that is ready, the way that worked when it was launched. */
export function openRecordedChannel(
  cluster: Cluster,
  record: Pick<InstanceRecord, 'pod' | 'agent'>,
  options: ChannelOptions = {},
): Promise<Forward> {
  const { pod, agent } = record;
  if (pod === null) throw new WindlassError('invariant_broken', 'There is no recorded Pod to connect to.');
  const place = { cluster, name: pod.name, container: pod.main?.name ?? 'agent', ip: pod.ip };
  return openChannel(place, agent?.transport ?? 'port_forward', options);
}

/**
 * The ways to try, best first. `auto` begins with what this instance used before, else with what its runtime class was
 * last reached by; pod_ip carries the token over the cluster's network in the clear and is therefore never a fallback.
 * An agentctl has no relay of ours: an exec could not carry its connections.
 */
export function transportsOf(
  {
    handshake,
    agent,
  }: { readonly handshake: ProfileConfig['handshake']; readonly agent: Pick<ProfileConfig['agent'], 'protocol'> },
  recorded: Transport | undefined,
  remembered: Transport | undefined,
): Transport[] {
  if (handshake !== 'auto') return [handshake];
  if (agent.protocol === 'agentctl') return ['port_forward'];
  const first = recorded ?? remembered;
  return first === 'exec' ? ['exec', 'port_forward'] : ['port_forward', 'exec'];
}

/** A runtime may be repaired: what was learnt of it is asked again after a day. */
const rememberSeconds = 86_400;
const shelfName = (cluster: string, runtimeClass: string): string => `agent-transport:${cluster}:${runtimeClass}`;

export const rememberedTransport = (shelf: Shelf, cluster: string, runtimeClass: string): Promise<Transport | undefined> =>
  shelf.get<Transport>(shelfName(cluster, runtimeClass));

/** Only what is not the default is kept: port_forward is tried first anyway. */
export async function rememberTransport(
  shelf: Shelf,
  cluster: string,
  runtimeClass: string,
  transport: Transport,
): Promise<void> {
  if (transport === 'exec') await shelf.put(shelfName(cluster, runtimeClass), transport, rememberSeconds);
  else await shelf.drop(shelfName(cluster, runtimeClass));
}
