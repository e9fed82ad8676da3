import { createAgentClient } from '../agent/client.ts';
import { rekeyCommand } from '../agent/delivery.ts';
import { podPaths } from '../agent/protocol.ts';
import { WindlassError } from '../errors.ts';
import type { Cluster } from '../kubernetes/port.ts';
import { openChannel } from './agent-channel.ts';

const rekeyMs = 30_000;

export interface RunningPod {
  readonly cluster: Cluster;
  readonly pod: string;
  readonly container: string;
  readonly instanceId: string;
  readonly signal: AbortSignal;
}

/**
 * A new token for the agent in a Pod, without a restart; the old one ends. Undefined = no agent answers there: the Pod was
 * never bootstrapped, or its memory volume is new. Everything else that goes wrong is thrown: it says nothing about the agent.
 */
export async function rekeyAgent(running: RunningPod): Promise<string | undefined> {
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
  await ensureInstance(running, token);
  return token;
}

/**
 * A launch that was under way may have got as far as the agent, but not to its instance: that is made up for. By exec, as
 * the new token came: no other way to this Pod is known to work.
 */
async function ensureInstance({ cluster, pod, container, instanceId, signal: outer }: RunningPod, token: string): Promise<void> {
  const signal = AbortSignal.any([outer, AbortSignal.timeout(rekeyMs)]);
  const channel = await openChannel({ cluster, name: pod, container, ip: '' }, 'exec', { signal });
  try {
    const { port, trouble } = channel;
    const client = createAgentClient({ host: '127.0.0.1', port, token, instanceId, trouble });
    if ((await client.instance(signal)) === undefined)
      await client.ensureInstance({ id: instanceId, workspace_path: podPaths.workspace }, signal);
  } finally {
    await channel.close();
  }
}
