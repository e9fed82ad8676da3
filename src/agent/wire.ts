import { Agent, type ClientRequest, request as httpRequest, type IncomingMessage, type RequestOptions } from 'node:http';
import type { ErrorCode } from '../error-codes.ts';
import { WindlassError } from '../errors.ts';

/** Where the agent is, and who asks. */
export interface Wire {
  readonly host: string;
  readonly port: number;
  readonly token: string | undefined;
  readonly instanceId: string;
  /** Why the way to the agent is closed, where somebody knows better than the connection that was reset. */
  readonly trouble?: (() => WindlassError | undefined) | undefined;
}

export interface Answer {
  readonly status: number;
  /** Parsed JSON; undefined when the body was none. */
  readonly body: unknown;
  /** Seconds, from Retry-After. */
  readonly retryAfter: number | undefined;
}

export interface Question {
  readonly method: 'GET' | 'POST';
  readonly path: string;
  readonly body?: unknown;
  readonly timeoutMs: number;
  /** Asking twice is not the same as asking once: over a new connection, and never again by itself. */
  readonly once?: boolean;
}

/** What runs in the Pod may answer anything: more than this is not read. */
const maxBody = 1 << 20;

/** Kept connections: each new one through a forward costs a websocket to the API server. They end with their forward. */
const pool = new Agent({ keepAlive: true });

/**
 * One request. Every call of our protocol may be repeated, so a kept connection that had died unseen is retried once.
 * Errors: `forward_lost` for no answer or half of one, `handshake_failed` for one that cannot be the agent's; an abort
 * throws the signal's reason.
 */
export async function ask(wire: Wire, question: Question, signal?: AbortSignal): Promise<Answer> {
  const late = AbortSignal.timeout(question.timeoutMs);
  const either = signal ? AbortSignal.any([signal, late]) : late;
  try {
    const kept = question.once ? undefined : await send(wire, question, either, pool);
    return kept ?? (await send(wire, question, either, false))!;
  } catch (error) {
    signal?.throwIfAborted();
    if (late.aborted) throw new WindlassError('forward_lost', `The agent did not answer within ${question.timeoutMs} ms.`);
    throw wire.trouble?.() ?? transportError('forward_lost', error);
  }
}

/** Undefined when a kept connection turned out to be dead. */
function send(wire: Wire, question: Question, signal: AbortSignal, agent: Agent | false): Promise<Answer | undefined> {
  return new Promise((resolve, reject) => {
    const body = question.body === undefined ? undefined : JSON.stringify(question.body);
    const options = { ...requestOptions(wire, question.path), method: question.method, signal, agent };
    const request: ClientRequest = httpRequest(options, (response) => {
      readAnswer(response).then(resolve, (error) => {
        request.destroy();
        reject(error);
      });
    });
    request.on('error', (error) => (request.reusedSocket && !signal.aborted ? resolve(undefined) : reject(error)));
    if (body !== undefined) request.setHeader('content-type', 'application/json');
    request.end(body);
  });
}

export function requestOptions(wire: Wire, path: string): RequestOptions {
  return {
    host: wire.host,
    port: wire.port,
    path,
    headers: {
      'x-instance-id': encodeURIComponent(wire.instanceId),
      ...(wire.token === undefined ? {} : { authorization: `Bearer ${wire.token}` }),
    },
  };
}

export async function readAnswer(response: IncomingMessage): Promise<Answer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of response) {
    size += (chunk as Buffer).length;
    if (size > maxBody) throw new WindlassError('handshake_failed', `The agent answered with more than ${maxBody} bytes.`);
    chunks.push(chunk as Buffer);
  }
  const seconds = Number(response.headers['retry-after']);
  return {
    status: response.statusCode ?? 0,
    body: parseJson(Buffer.concat(chunks).toString()),
    retryAfter: Number.isFinite(seconds) && seconds >= 0 && seconds <= 3600 ? seconds : undefined,
  };
}

/** Undefined for what is no JSON: the caller's check of the shape then says what was expected. */
export function parseJson(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** An answer that is a refusal or not what the protocol says; `evidence.status` tells them apart. */
export function refused(what: string, answer: Answer): WindlassError {
  const told = (answer.body as { error?: unknown } | undefined)?.error;
  const reason = typeof told === 'string' ? `: ${clean(told)}` : '';
  const retryAfterMs = answer.retryAfter === undefined ? {} : { retryAfterMs: answer.retryAfter * 1000 };
  return new WindlassError('handshake_failed', `The agent answered ${what} with status ${answer.status}${reason}.`, {
    evidence: { status: answer.status },
    ...retryAfterMs,
  });
}

export function transportError(code: ErrorCode, error: unknown): WindlassError {
  if (error instanceof WindlassError) return error;
  const { code: errno, message } = error as NodeJS.ErrnoException;
  return new WindlassError(code, `The connection to the agent failed: ${clean(errno ?? message ?? String(error))}.`, {
    cause: error,
  });
}

/** Text of the Pod, safe to store and to print: capped, without control and format characters (I19). */
export function clean(text: string): string {
  return text.replaceAll(/[\p{C}\p{Zl}\p{Zp}]+/gu, ' ').slice(0, 300);
}
