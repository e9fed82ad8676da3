import { agentctlNonceCommand } from '../agent/agentctl-bootstrap.ts';
import { rekeyCommand } from '../agent/boot.ts';
import { poll } from '../clock.ts';
import { asWindlassError, WindlassError } from '../errors.ts';
import type { InstanceRecord } from '../inventory/types.ts';
import type { Cluster, Forward } from '../kubernetes/port.ts';
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
  if (said.exitCode !== 0 || nonce === '')
    throw new WindlassError('exec_lost', `Reading the nonce of the agent ended with exit code ${said.exitCode}.`);
  await endAgentctl(cluster, target, { signal });
  return through(running, running.transport, async (channel) => {
    const token = await tokenOnceStarted(running, channel, nonce);
    return { token, nonce, ...(await ensureInstance(running, channel, token)) };
  });
}

/** Refused by the agent that is about to end, then not answered, then answered. */
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
      const { code, evidence } = asWindlassError(error);
      if (code !== 'forward_lost' && evidence?.status !== 403) throw error;
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
