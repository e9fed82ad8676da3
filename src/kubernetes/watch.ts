import type { Readable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import { ApiError, errorOfAnswer } from './api-error.ts';
import { reviveDates } from './dates.ts';
import type { Rest } from './rest.ts';

export interface WatchLog {
  warn(fields: object, message: string): void;
  debug(fields: object, message: string): void;
}

interface WatchedObject {
  readonly metadata?: { readonly resourceVersion?: string };
}

export interface WatchOptions<T extends WatchedObject> {
  readonly rest: Rest;
  readonly resource: string;
  readonly path: string;
  readonly labelSelector?: string;
  readonly signal: AbortSignal;
  readonly log: WatchLog;
  /** The whole truth after a (re)list. */
  readonly onList: (items: readonly T[]) => void;
  readonly onChange: (type: 'ADDED' | 'MODIFIED' | 'DELETED', object: T) => void;
  /** Called for each reconnect, for the metric. */
  readonly onRestart?: () => void;
  /** A watch on which nothing came for so long is taken up again; default 30 s. */
  readonly idleMs?: number;
}

const pageSize = 500;
/** One object of a Pod with huge annotations stays well below; more is no line of a watch. */
const maxLine = 8 << 20;
const backoffBaseMs = 200;
const backoffMaxMs = 15_000;
/** A watch that lived so long was a good one: the next failure starts the backoff anew. */
const goodLifeMs = 5000;

interface WatchEvent<T> {
  readonly type: string;
  readonly object: T;
}

/**
 * Lists, then watches, for ever: one request at a time, so that there is never more than one live watch (C65).
 * Every end is normal: a quiet or closed watch is taken up at the last resourceVersion, an expired one (410, in the
 * stream or as status) lists again. Returns when the signal aborts; never throws.
 */
export async function runWatch<T extends WatchedObject>(options: WatchOptions<T>): Promise<void> {
  let version: string | undefined;
  let failures = 0;
  while (!options.signal.aborted) {
    const started = performance.now();
    let failure: unknown;
    try {
      version ??= await list(options);
      version = await follow(options, version);
    } catch (error) {
      failure = error;
    }
    if (options.signal.aborted) return;
    options.onRestart?.();
    if (isExpired(failure)) version = undefined;
    failures = performance.now() - started > goodLifeMs ? 0 : failures + 1;
    if (failure !== undefined && !isExpired(failure)) report(options, failure, failures);
    await pause(failures, options.signal);
  }
}

/** Full jitter: workers that lost the same API server must not come back together. */
async function pause(failures: number, signal: AbortSignal): Promise<void> {
  const limit = Math.min(backoffBaseMs * 2 ** Math.min(failures, 10), backoffMaxMs);
  await delay(limit / 2 + (Math.random() * limit) / 2, undefined, { signal }).catch((error: unknown) => {
    if (!signal.aborted) throw error;
  });
}

function report<T extends WatchedObject>(options: WatchOptions<T>, failure: unknown, failures: number): void {
  const fields = { resource: options.resource, error: failure instanceof Error ? failure.message : String(failure), failures };
  if (failures === 3) options.log.warn(fields, 'the watch keeps failing; it is tried again with backoff');
  else options.log.debug(fields, 'the watch ended and is taken up again');
}

function isExpired(failure: unknown): boolean {
  return failure instanceof ApiError && (failure.status === 410 || failure.reason === 'Expired' || failure.reason === 'Gone');
}

async function list<T extends WatchedObject>(options: WatchOptions<T>): Promise<string> {
  const items: T[] = [];
  let token: string | undefined;
  for (;;) {
    const { body } = await options.rest.call<{ items?: T[]; metadata?: { continue?: string; resourceVersion?: string } }>({
      verb: 'list',
      resource: options.resource,
      method: 'GET',
      path: options.path,
      query: { labelSelector: options.labelSelector, limit: pageSize, continue: token },
      signal: options.signal,
    });
    for (const item of body.items ?? []) items.push(reviveDates(item));
    token = body.metadata?.continue || undefined;
    if (token !== undefined) continue;
    options.onList(items);
    return body.metadata?.resourceVersion ?? '0';
  }
}

/** Reads one watch to its end. Returns the resourceVersion to go on from; throws when the watch failed. */
async function follow<T extends WatchedObject>(options: WatchOptions<T>, from: string): Promise<string> {
  let version = from;
  const idle = idleTimer(options.idleMs ?? 30_000);
  const signal = AbortSignal.any([options.signal, idle.signal]);
  try {
    const body = await options.rest.stream({
      verb: 'watch',
      resource: options.resource,
      method: 'GET',
      path: options.path,
      query: {
        watch: true,
        allowWatchBookmarks: true,
        labelSelector: options.labelSelector,
        resourceVersion: from,
        timeoutSeconds: 290,
      },
      signal,
    });
    for await (const line of lines(body)) {
      idle.touch();
      const event = JSON.parse(line) as WatchEvent<T>;
      if (event.type === 'ERROR') throw streamError(options.resource, event.object);
      version = event.object.metadata?.resourceVersion || version;
      if (event.type === 'ADDED' || event.type === 'MODIFIED' || event.type === 'DELETED')
        options.onChange(event.type, reviveDates(event.object));
    }
    return version;
  } catch (error) {
    // Silence is no failure: the next watch starts where this one stood.
    if (idle.signal.aborted && !options.signal.aborted) return version;
    if (version !== from && !isExpired(error)) return version;
    throw error;
  } finally {
    idle.stop();
  }
}

function idleTimer(ms: number): { readonly signal: AbortSignal; touch(): void; stop(): void } {
  const controller = new AbortController();
  const timer = setTimeout(() => controller.abort(), ms);
  return { signal: controller.signal, touch: () => timer.refresh(), stop: () => clearTimeout(timer) };
}

function streamError(resource: string, status: unknown): ApiError {
  const code = Number((status as { code?: unknown } | undefined)?.code ?? 500);
  return errorOfAnswer({ verb: 'watch', resource }, { status: code, body: JSON.stringify(status ?? {}) });
}

async function* lines(body: Readable): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  for await (const chunk of body as AsyncIterable<Uint8Array>) {
    const parts = (rest + decoder.decode(chunk, { stream: true })).split('\n');
    rest = parts.pop() ?? '';
    if (rest.length > maxLine) throw new Error('a line of the watch is longer than 8 MiB');
    for (const part of parts) if (part !== '') yield part;
  }
}
