import { effect } from '../effects.ts';
import { WindlassError } from '../errors.ts';
import { type ExecStreams, runExec } from './exec-client.ts';
import {
  type CreateInstanceRequest,
  type ExecExit,
  type ExecStart,
  type HandshakeRequest,
  type Health,
  type InstanceInfo,
  protocolVersion,
} from './protocol.ts';
import { type Answer, ask, refused, type Wire } from './wire.ts';

/**
 * The agent of one instance, at the local end of a forward. Errors: `forward_lost` (no connection, no or half an answer),
 * `handshake_failed` (refused, or not an agent; `evidence.status` is the HTTP status), `exec_lost` (ended without an exit).
 */
export interface AgentClient {
  /** `protocol` is absent where the agent speaks none of ours. */
  health(signal?: AbortSignal): Promise<Omit<Health, 'protocol'> & Partial<Health>>;
  /** The token. The same client key may ask again, unless the agent is an agentctl. */
  handshake(request: HandshakeRequest, signal?: AbortSignal): Promise<string>;
  /** Creates the instance, or finds it with equal content. */
  ensureInstance(request: CreateInstanceRequest, signal?: AbortSignal): Promise<InstanceInfo>;
  /** Undefined when the agent does not know the instance. */
  instance(signal?: AbortSignal): Promise<InstanceInfo | undefined>;
  exec(start: ExecStart, streams: ExecStreams): Promise<ExecExit>;
}

const quickMs = 10_000;
/** Creating starts the instance's command. */
const createMs = 30_000;

export interface AgentAddress {
  readonly host: string;
  readonly port: number;
  readonly token?: string;
  readonly instanceId: string;
  /** Of the forward: its refusal is thrown in place of `forward_lost`. */
  readonly trouble?: () => WindlassError | undefined;
}

export function createAgentClient(options: AgentAddress): AgentClient {
  const { host, port, instanceId, token, trouble } = options;
  const wire: Wire = { host, port, instanceId, token, trouble };
  return {
    health: (signal) => health(wire, signal),
    handshake: (request, signal) => effect('agent.handshake', instanceId, () => handshake(wire, request, signal)),
    ensureInstance: (request, signal) => effect('agent.create', instanceId, () => ensureInstance(wire, request, signal)),
    instance: (signal) => readInstance(wire, signal),
    exec: (start, streams) => effect('agent.exec', instanceId, () => runExec(wire, start, streams)),
  };
}

const pathOf = (id: string): string => `/api/v1/instances/${encodeURIComponent(id)}`;

async function health(wire: Wire, signal?: AbortSignal): Promise<Health> {
  const answer = await ask(wire, { method: 'GET', path: '/health', timeoutMs: quickMs }, signal);
  const { status, timestamp, protocol } = fields(answer);
  if (answer.status !== 200 || status !== 'ok' || typeof timestamp !== 'string' || typeof protocol !== 'number') {
    throw refused('the health check', answer);
  }
  // Both sides speak the version before their own, so the newer one adapts.
  if (Math.abs(protocol - protocolVersion) > 1) {
    throw new WindlassError('handshake_failed', `The agent speaks protocol ${protocol}, this worker ${protocolVersion}.`);
  }
  return { status, timestamp, protocol };
}

async function handshake(wire: Wire, request: HandshakeRequest, signal?: AbortSignal): Promise<string> {
  const answer = await ask(wire, { method: 'POST', path: '/auth/handshake', body: request, timeoutMs: quickMs }, signal);
  return tokenOf(answer);
}

export function tokenOf(answer: Answer): string {
  const { token } = fields(answer);
  // The token goes into our headers: nothing in it may end a line.
  if (answer.status !== 200 || typeof token !== 'string' || !/^[A-Za-z0-9._~+/=-]{16,512}$/.test(token)) {
    throw refused('the handshake', answer);
  }
  return token;
}

async function ensureInstance(wire: Wire, request: CreateInstanceRequest, signal?: AbortSignal): Promise<InstanceInfo> {
  const question = { method: 'POST', path: '/api/v1/instances', body: request, timeoutMs: createMs } as const;
  let answer: Answer;
  try {
    answer = await ask(wire, question, signal);
  } catch (error) {
    if (!(error instanceof WindlassError && error.code === 'forward_lost')) throw error;
    // The answer was lost, perhaps not the request.
    const found = await readInstance(wire, signal);
    if (found === undefined) throw error;
    return sameInstance(request, found);
  }
  if (answer.status === 409) throw conflict(wire, request, answer);
  if (answer.status !== 200 && answer.status !== 201) throw refused('the creation of the instance', answer);
  return sameInstance(request, instanceInfo(answer));
}

async function readInstance(wire: Wire, signal?: AbortSignal): Promise<InstanceInfo | undefined> {
  const answer = await ask(wire, { method: 'GET', path: pathOf(wire.instanceId), timeoutMs: quickMs }, signal);
  if (answer.status === 404) return undefined;
  if (answer.status !== 200) throw refused('the question for its instance', answer);
  return sameInstance({ id: wire.instanceId }, instanceInfo(answer));
}

export function conflict(wire: Wire, request: CreateInstanceRequest, answer: Answer): WindlassError {
  const told = refused('the creation', answer);
  return new WindlassError(
    'handshake_failed',
    `Asked for the instance "${request.id}" in ${request.workspace_path}, but the agent at port ${wire.port} has it otherwise. ${told.message}`,
    { evidence: { status: 409 } },
  );
}

export function sameInstance(
  wanted: { readonly id: string; readonly workspace_path?: string },
  found: InstanceInfo,
): InstanceInfo {
  const differs = found.id !== wanted.id || (wanted.workspace_path ?? found.workspace_path) !== found.workspace_path;
  if (!differs) return found;
  throw new WindlassError(
    'handshake_failed',
    `Asked for the instance "${wanted.id}", the agent answered with "${found.id.slice(0, 128)}" in ${found.workspace_path.slice(0, 128)}.`,
  );
}

function instanceInfo(answer: Answer): InstanceInfo {
  const { id, port, status, workspace_path, created_at, command, last_activity_at } = fields(answer);
  const texts = [id, status, workspace_path, created_at, last_activity_at ?? ''];
  if (!texts.every((text) => typeof text === 'string' && text.length <= 4096) || !isPort(port) || !isCommand(command)) {
    throw new WindlassError('handshake_failed', 'The agent described its instance in a way that the protocol does not know.');
  }
  return answer.body as InstanceInfo;
}

export function isPort(value: unknown): boolean {
  return Number.isInteger(value) && (value as number) > 0 && (value as number) < 65536;
}

function isCommand(value: unknown): boolean {
  if (value === undefined) return true;
  const { pid, exitCode, signal } = (value ?? {}) as Record<string, unknown>;
  const ended = exitCode === null || (Number.isInteger(exitCode) && (exitCode as number) >= 0 && (exitCode as number) < 256);
  return (
    Number.isInteger(pid) && ended && (signal === null || (typeof signal === 'string' && /^SIG[A-Z0-9]{1,12}$/.test(signal)))
  );
}

export function fields(answer: Answer): Record<string, unknown> {
  const { body } = answer;
  return typeof body === 'object' && body !== null && !Array.isArray(body) ? (body as Record<string, unknown>) : {};
}
