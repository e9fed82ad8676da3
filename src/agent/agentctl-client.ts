import { effect } from '../effects.ts';
import { WindlassError } from '../errors.ts';
import { type AgentAddress, type AgentClient, conflict, fields, isPort, sameInstance, tokenOf } from './client.ts';
import type { CreateInstanceRequest, HandshakeRequest, Health, InstanceInfo } from './protocol.ts';
import { type Answer, ask, refused, type Wire } from './wire.ts';

const quickMs = 10_000;
/** The original's own client waits as long. */
const createMs = 30_000;

/** Ports of its instance servers, given to it by bootstrap. */
export const agentctlPorts = { base: 41_001, max: 41_100 } as const;

/**
 * The client of an agentctl: the same port as that of our own agent. Its differences: the nonce burns with the first answer
 * (`handshake_failed` with status 403 from then on, until the process is started anew), a duplicate id is a 500, and every
 * instance has a server of its own, whose port `ensureInstance` answers.
 */
export function createAgentctlClient(address: AgentAddress): AgentClient {
  const { host, port, token, trouble } = address;
  const { instanceId } = address;
  const wire: Wire = { host, port, instanceId, token, trouble };
  return {
    health: (signal) => health(wire, signal),
    handshake: (request, signal) => effect('agent.handshake', instanceId, () => handshake(wire, request, signal)),
    ensureInstance: (request, signal) => effect('agent.create', instanceId, () => ensureInstance(wire, request, signal)),
    instance: (signal) => readInstance(wire, signal),
    exec: async () => {
      throw new WindlassError('handshake_failed', 'An agentctl runs no commands for Windlass.', {
        hint: '`windlass exec` goes through the cluster instead.',
      });
    },
  };
}

async function health(wire: Wire, signal: AbortSignal | undefined): Promise<Omit<Health, 'protocol'>> {
  const answer = await ask(wire, { method: 'GET', path: '/health', timeoutMs: quickMs }, signal);
  const { status, timestamp } = fields(answer);
  if (answer.status !== 200 || status !== 'ok' || typeof timestamp !== 'string') throw refused('the health check', answer);
  return { status, timestamp };
}

async function handshake(wire: Wire, { nonce }: HandshakeRequest, signal: AbortSignal | undefined): Promise<string> {
  const question = { method: 'POST', path: '/auth/handshake', body: { nonce }, timeoutMs: quickMs, once: true } as const;
  return tokenOf(await ask(wire, question, signal));
}

/** Whatever a create came to, what is there decides: an answer may be lost, and 500 may mean that it was there before. */
async function ensureInstance(
  wire: Wire,
  request: CreateInstanceRequest,
  signal: AbortSignal | undefined,
): Promise<InstanceInfo> {
  const { id, workspace_path, env } = request;
  const body = { id, workspace_path, auto_start: false, ...(env === undefined ? {} : { env }) };
  const there = await readInstance(wire, signal);
  if (there !== undefined) return sameInstance(request, there);
  let failure: WindlassError;
  try {
    const question = { method: 'POST', path: '/api/v1/instances', body, timeoutMs: createMs, once: true } as const;
    const answer = await ask(wire, question, signal);
    if (answer.status < 300) return created(wire, request, answer, signal);
    failure = refused('the creation of the instance', answer);
    if (answer.status < 500) throw answer.status === 409 ? conflict(wire, request, answer) : failure;
  } catch (error) {
    if (!(error instanceof WindlassError && error.code === 'forward_lost')) throw error;
    failure = error;
  }
  const found = await readInstance(wire, signal);
  if (found === undefined) throw failure;
  return sameInstance(request, found);
}

/** The answer has id and port only; what the instance is, the question for it tells. */
async function created(
  wire: Wire,
  request: CreateInstanceRequest,
  answer: Answer,
  signal: AbortSignal | undefined,
): Promise<InstanceInfo> {
  const { id, port } = fields(answer);
  const found = await readInstance(wire, signal);
  if (id === request.id && found !== undefined && found.port === port) return sameInstance(request, found);
  throw new WindlassError('handshake_failed', `Asked for the instance "${request.id}", the agent answered with another one.`);
}

async function readInstance(wire: Wire, signal: AbortSignal | undefined): Promise<InstanceInfo | undefined> {
  const path = `/api/v1/instances/${encodeURIComponent(wire.instanceId)}`;
  const answer = await ask(wire, { method: 'GET', path, timeoutMs: quickMs }, signal);
  if (answer.status === 404) return undefined;
  if (answer.status !== 200) throw refused('the question for its instance', answer);
  return sameInstance({ id: wire.instanceId }, instanceInfo(answer));
}

/** Only what we know of it: the rest may hold anything, the environment of the agent included. */
function instanceInfo(answer: Answer): InstanceInfo {
  const { id, port, status, workspace_path, created_at } = fields(answer);
  const texts = [id, status, workspace_path, created_at];
  const inRange = isPort(port) && (port as number) >= agentctlPorts.base && (port as number) <= agentctlPorts.max;
  if (!texts.every((text) => typeof text === 'string' && text.length <= 4096) || !inRange)
    throw new WindlassError('handshake_failed', 'The agent described its instance in a way that agentctl does not.');
  return { id, port, status, workspace_path, created_at } as InstanceInfo;
}
