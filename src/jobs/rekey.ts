import type { V1Pod } from '@kubernetes/client-node';
import { agentctlNonceCommand } from '../agent/agentctl-bootstrap.ts';
import { rekeyCommand } from '../agent/boot.ts';
import { poll } from '../clock.ts';
import { asWindlassError, WindlassError } from '../errors.ts';
import type { InstanceRecord } from '../inventory/types.ts';
import { startOf } from '../kubernetes/pod-loss.ts';
import type { Cluster, ExecTarget, Forward } from '../kubernetes/port.ts';
import { openChannel, type Transport } from './agent-channel.ts';
import { agentClient, instanceRequest, type Protocol } from './agent-instance.ts';
import { endAgentctl } from './restart-agentctl.ts';

const rekeyMs = 30_000;
/** Of a container that ends, starts anew and serves. */
const restartMs = 60_000;

export interface RunningPod {
  readonly cluster: Cluster;
  readonly pod: string;
  readonly container: string;
  readonly ip: string;
  readonly instanceId: string;
  readonly hash: string;
  readonly protocol: Protocol;
  /** By which an agentctl is most likely reached. */
  readonly transport: Transport;
  readonly signal: AbortSignal;
}

export interface Rekeyed {
  readonly token: string;
  /** Where it had to be read from the Pod. */
  readonly nonce?: string;
  /** As it runs now, where its container had to be started anew. */
  readonly pod?: V1Pod;
  /** Of the instance that the agent holds. */
  readonly id: string;
  readonly port: number;
}

/**
 * A new token for the agent in a Pod; the old one ends. Ours gives it without a restart, an agentctl is started anew (its
 * nonce lies in the Pod). Undefined = no agent answers there: the Pod was never bootstrapped, or its memory volume is new.
 * Everything else that goes wrong is thrown: it says nothing about the agent.
 */
export async function rekeyAgent(running: RunningPod): Promise<Rekeyed | undefined> {
  return running.protocol === 'agentctl' ? rekeyAgentctl(running) : rekeyOurs(running);
}

async function rekeyOurs(running: RunningPod): Promise<Rekeyed | undefined> {
  const { cluster, pod, container, signal } = running;
  const result = await cluster.exec({ pod, container }, rekeyCommand(), { signal, timeoutMs: rekeyMs });
  if (result.exitCode !== 0) {
    if (/the agent does not answer/.test(result.stderr)) return undefined;
    throw new WindlassError('exec_lost', `Asking the agent for a new token ended with exit code ${result.exitCode}.`, {
      evidence: { exitCode: result.exitCode, stderr: result.stderr.slice(-500) },
    });
  }
  const token = /^\{"token":"([A-Za-z0-9._~+/=-]{16,512})"\}\s*$/.exec(result.stdout)?.[1];
  if (token === undefined) throw new WindlassError('exec_lost', 'The agent did not answer with a token.');
  // By exec, as the token came: no other way to this Pod is known to work.
  return through(running, 'exec', async (channel) => ({ token, ...(await ensureInstance(running, channel, token)) }));
}

async function rekeyAgentctl(running: RunningPod): Promise<Rekeyed | undefined> {
  const { cluster, pod, container, signal } = running;
  const target = { pod, container };
  const said = await cluster.exec(target, agentctlNonceCommand(), { signal, timeoutMs: rekeyMs });
  if (said.exitCode === 3) return undefined;
  const nonce = said.stdout;
  // The words of the Pod are kept out: what the file holds beside it is secret.
  if (said.exitCode !== 0 || !/^[0-9a-f]{64}$/.test(nonce))
    throw new WindlassError(
      'exec_lost',
      `Reading the nonce of the agent ended with exit code ${said.exitCode} and none of ours.`,
    );
  const restarted = await startAnew(running, target);
  return through(running, running.transport, async (channel) => {
    const token = await tokenOnceStarted(running, channel, nonce);
    return { token, nonce, pod: restarted, ...(await ensureInstance(running, channel, token)) };
  });
}

/**
 * The Pod once another container of it runs. Asked earlier, the agent that is about to end might still hand out its token,
 * and a container that the cluster has not told of yet would be recorded as the old one and look restarted at once.
 */
async function startAnew({ cluster, pod, container, signal }: RunningPod, target: ExecTarget): Promise<V1Pod> {
  const look = () => cluster.read('pods', pod, { signal });
  const before = await look();
  const { id } = startOf(before ?? {}, container);
  await endAgentctl(cluster, target, { signal });
  let seen = before;
  const another = async () => {
    seen = await look();
    if (seen?.metadata?.uid !== before?.metadata?.uid || seen === undefined)
      throw new WindlassError('pod_disrupted', 'The Pod was removed while its agent was started anew.');
    const start = startOf(seen, container);
    const status = seen.status?.containerStatuses?.find(({ name }) => name === container);
    return start.id !== '' && start.id !== id && status?.state?.running !== undefined;
  };
  if ((await poll(another, { everyMs: 250, forMs: restartMs, signal })) && seen !== undefined) return seen;
  throw new WindlassError('handshake_failed', `The agent was ended, but no other container ran within ${restartMs} ms.`);
}

/** Not answered until the container that was just started serves. */
async function tokenOnceStarted(running: RunningPod, channel: Forward, nonce: string): Promise<string> {
  let token: string | undefined;
  let last: unknown;
  const ask = async () => {
    try {
      const client = agentClient(recordLike(running), running.protocol, { port: channel.port, trouble: channel.trouble });
      token = await client.handshake({ nonce, clientKey: '' }, running.signal);
      return true;
    } catch (error) {
      running.signal.throwIfAborted();
      last = error;
      if (asWindlassError(error).code !== 'forward_lost') throw error;
      return false;
    }
  };
  await poll(ask, { everyMs: 250, forMs: restartMs, signal: running.signal });
  if (token === undefined) throw last;
  return token;
}

async function through<T>(running: RunningPod, transport: Transport, use: (channel: Forward) => Promise<T>): Promise<T> {
  const { cluster, pod, container, ip, signal } = running;
  const channel = await openChannel({ cluster, name: pod, container, ip }, transport, { signal });
  try {
    return await use(channel);
  } finally {
    await channel.close();
  }
}

/** A launch that was under way may have got as far as the agent, but not to its instance: that is made up for. */
async function ensureInstance(running: RunningPod, channel: Forward, token: string): Promise<{ id: string; port: number }> {
  const signal = AbortSignal.any([running.signal, AbortSignal.timeout(rekeyMs)]);
  const record = recordLike(running);
  const client = agentClient(record, running.protocol, { port: channel.port, trouble: channel.trouble, token });
  const found =
    (await client.instance(signal)) ?? (await client.ensureInstance(instanceRequest(record, running.protocol), signal));
  return { id: found.id, port: found.port };
}

/** What the agent's names are made of; there is no record yet. */
const recordLike = ({ instanceId, hash }: RunningPod): Pick<InstanceRecord, 'instanceId' | 'hash' | 'request'> => ({
  instanceId,
  hash,
  request: { payload: {}, requestHash: '' },
});
