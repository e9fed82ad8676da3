import type { Readable } from 'node:stream';
import { type Dispatcher, request } from 'undici';
import { effect } from '../effects.ts';
import { ApiError, type Asked, abortReason, errorOfAnswer, errorOfTransport, isAmbiguous } from './api-error.ts';
import type { Access, Connection } from './connection.ts';

export interface RestCall extends Asked {
  readonly method: 'GET' | 'POST' | 'PATCH' | 'DELETE';
  /** Built from checked names only. */
  readonly path: string;
  readonly query?: Readonly<Record<string, string | number | boolean | undefined>>;
  readonly body?: unknown;
  readonly contentType?: string;
  readonly accept?: string;
  readonly signal?: AbortSignal | undefined;
  readonly instance?: string | undefined;
}

export interface RestAnswer<T> {
  readonly body: T;
  /** Server time of the answer in ms. */
  readonly serverTime: number;
}

/** One finished call, for metrics: `code` is the HTTP status, or 0 when no answer came. */
export interface CallSeen {
  readonly verb: string;
  readonly resource: string;
  readonly code: number;
  readonly ms: number;
}

/** The calls of one cluster: pooled, bounded in time, classified. */
export interface Rest {
  readonly connection: Connection;
  call<T>(call: RestCall): Promise<RestAnswer<T>>;
  /** The body as it comes. The time limit covers only the wait for the headers. */
  stream(call: RestCall): Promise<Readable>;
  /** Server clock minus ours in ms; 0 before the first answer. */
  clockSkewMs(): number;
}

const maxErrorBody = 64 * 1024;

export function createRest(connection: Connection, timeoutMs: number, seen: (call: CallSeen) => void = () => {}): Rest {
  let skew = 0;

  const send = async (call: RestCall, pool: 'calls' | 'streams', signal: AbortSignal): Promise<Dispatcher.ResponseData> => {
    const started = performance.now();
    let code = 0;
    try {
      const access = await connection.access();
      if (signal.aborted) throw errorOfTransport(call, signal.reason, { sent: false });
      const answer = await dispatch(call, access, pool, signal);
      code = answer.statusCode;
      const date = Date.parse(String(answer.headers.date ?? ''));
      // The header is cut to whole seconds: half a second is the mean of what was cut off.
      if (!Number.isNaN(date)) skew = date + 500 - Date.now();
      if (code >= 200 && code < 300) return answer;
      throw await refusal(call, answer);
    } finally {
      seen({ verb: call.verb, resource: call.resource, code, ms: performance.now() - started });
    }
  };

  /** One repeat where it is harmless: after a 401 with fresh credentials, and of a GET whose kept-alive socket had died. */
  const attempt = async <T>(call: RestCall, signal: AbortSignal, once: () => Promise<T>): Promise<T> => {
    try {
      return await once();
    } catch (error) {
      if (signal.aborted || !(error instanceof ApiError)) throw error;
      if (error.status === 401) await connection.reload();
      else if (call.method !== 'GET' || error.status !== 0 || !error.ambiguous) throw error;
      return await once();
    }
  };

  const bounded = async <T>(call: RestCall, run: (signal: AbortSignal) => Promise<T>): Promise<T> => {
    if (call.signal?.aborted) throw abortReason(call.signal);
    const limit = AbortSignal.timeout(timeoutMs);
    const signal = call.signal ? AbortSignal.any([call.signal, limit]) : limit;
    try {
      return await attempt(call, signal, () => run(signal));
    } catch (error) {
      // What was given up before it was sent, and a read, have no fate to find out: the caller's reason says more (I5).
      if (call.signal?.aborted && (call.method === 'GET' || !isAmbiguous(error))) throw abortReason(call.signal);
      throw error;
    }
  };

  const readJson = async <T>(call: RestCall, signal: AbortSignal): Promise<RestAnswer<T>> => {
    const answer = await send(call, 'calls', signal);
    const body = (await answer.body.json().catch((error: unknown) => {
      // The status said yes, but what was made is not known.
      throw errorOfTransport(call, error);
    })) as T;
    const date = Date.parse(String(answer.headers.date ?? ''));
    return { body, serverTime: Number.isNaN(date) ? Date.now() + skew : date };
  };

  return {
    connection,
    clockSkewMs: () => skew,
    call<T>(call: RestCall): Promise<RestAnswer<T>> {
      const run = () => bounded(call, (signal) => readJson<T>(call, signal));
      return call.method === 'GET' ? run() : effect(`kube.${call.verb}.${call.resource}`, call.instance, run);
    },
    async stream(call) {
      if (call.signal?.aborted) throw abortReason(call.signal);
      const patience = new AbortController();
      const timer = setTimeout(() => patience.abort(new DOMException('no headers in time', 'TimeoutError')), timeoutMs);
      const signal = call.signal ? AbortSignal.any([call.signal, patience.signal]) : patience.signal;
      try {
        const answer = await attempt(call, signal, () => send(call, 'streams', signal));
        return answer.body;
      } catch (error) {
        if (call.signal?.aborted) throw abortReason(call.signal);
        throw error;
      } finally {
        clearTimeout(timer);
      }
    },
  };
}

/** Whatever undici throws, the reason of an abort included, becomes a failure of which we know that it may have been sent. */
async function dispatch(
  call: RestCall,
  access: Access,
  pool: 'calls' | 'streams',
  signal: AbortSignal,
): Promise<Dispatcher.ResponseData> {
  const query = new URLSearchParams();
  for (const [key, value] of Object.entries(call.query ?? {})) if (value !== undefined) query.set(key, String(value));
  const search = query.size === 0 ? '' : `?${query}`;
  const sent = request(`${access.base}${call.path}${search}`, {
    method: call.method,
    dispatcher: access[pool],
    signal,
    headers: {
      ...access.headers,
      accept: call.accept ?? 'application/json',
      ...(call.body === undefined ? {} : { 'content-type': call.contentType ?? 'application/json' }),
    },
    ...(call.body === undefined ? {} : { body: JSON.stringify(call.body) }),
  });
  return sent.catch((error: unknown) => {
    throw errorOfTransport(call, error);
  });
}

async function refusal(call: RestCall, answer: Dispatcher.ResponseData): Promise<ApiError> {
  const retryAfter = answer.headers['retry-after'];
  return errorOfAnswer(call, {
    status: answer.statusCode,
    body: await bodyStart(answer.body),
    retryAfter: Array.isArray(retryAfter) ? retryAfter[0] : retryAfter,
  });
}

/** The first part of an error's body. The status decides; a body that breaks off only says less. */
export async function bodyStart(body: AsyncIterable<Buffer>): Promise<string> {
  const chunks: Buffer[] = [];
  let size = 0;
  try {
    for await (const chunk of body) {
      chunks.push(chunk);
      size += chunk.length;
      if (size > maxErrorBody) break;
    }
  } catch (error) {
    chunks.push(Buffer.from(` (the answer broke off: ${(error as Error).message})`));
  }
  return Buffer.concat(chunks).toString('utf8');
}
