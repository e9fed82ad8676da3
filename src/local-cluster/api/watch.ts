import type { ServerResponse } from 'node:http';
import type { KubeObject, StoreEvent } from '../types.ts';
import type { ApiContext } from './context.ts';
import { forbiddenField } from './field-errors.ts';
import { numberParameter, versionParameter } from './list.ts';
import type { Form } from './negotiate.ts';
import { renderObject } from './render.ts';
import { apiVersionOf, type Resource } from './resources.ts';
import { type Matcher, matcherOf } from './selectors.ts';
import { expired, invalid, type Status } from './status.ts';

const bookmarkEveryMs = 10_000;
const defaultTimeoutSeconds = 3600;

export interface WatchRequest {
  readonly resource: Resource;
  readonly namespace: string | undefined;
  readonly query: URLSearchParams;
  readonly form: Form;
}

/** What the fault rules may do to an open watch. */
export interface WatchControl {
  /** Nothing more is sent, but the connection stays. */
  silence(): void;
  close(): void;
  /** Ends the watch with a 410 event. */
  gone(): void;
}

interface Plan {
  readonly initial: readonly KubeObject[];
  readonly backlog: readonly StoreEvent[];
  readonly markInitialEnd: boolean;
}

const optionsKind = { resource: 'listoptions', kind: 'ListOptions', group: 'meta.k8s.io' };
const refusedOption = (why: string) => invalid(optionsKind, '', [forbiddenField('resourceVersionMatch', why)]);

/** What to send first: the state (as ADDED), or the events since a version; undefined when that version is too old. */
function planOf(context: ApiContext, { resource, namespace, query }: WatchRequest, bookmarks: boolean): Plan | undefined {
  const version = versionParameter(query);
  const asked = query.get('sendInitialEvents');
  const match = query.get('resourceVersionMatch') ?? '';
  if (asked !== null && match !== 'NotOlderThan') {
    throw refusedOption('sendInitialEvents requires setting resourceVersionMatch to NotOlderThan');
  }
  if (asked === null && match !== '') {
    throw refusedOption('resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided');
  }
  const fromStart = version === undefined || version === 0;
  const withState = asked === 'true' || (fromStart && asked !== 'false');
  if (withState) {
    return { initial: context.store.list(resource.resource, namespace), backlog: [], markInitialEnd: bookmarks };
  }
  const backlog = fromStart ? [] : context.store.since(version);
  return backlog && { initial: [], backlog, markInitialEnd: false };
}

/** How an event looks to a watcher with a selector: objects enter and leave its view. */
function seenAs(event: StoreEvent, matches: Matcher): StoreEvent['type'] | undefined {
  const is = event.type !== 'DELETED' && matches(event.object);
  const was = event.previous !== undefined && matches(event.previous);
  if (is) return was ? 'MODIFIED' : 'ADDED';
  return was ? 'DELETED' : undefined;
}

function createWriter(response: ServerResponse, request: WatchRequest, now: () => number) {
  let columnsSent = false;
  let silent = false;
  const send = (type: string, object: unknown): void => {
    if (silent || response.writableEnded || response.destroyed) return;
    response.write(`${JSON.stringify({ type, object })}\n`);
  };
  return {
    mute: () => {
      silent = true;
    },
    object(type: string, object: KubeObject): void {
      const how = { form: request.form, resource: request.resource, query: request.query, now: now() };
      send(type, renderObject(object, how, !columnsSent));
      columnsSent = true;
    },
    bookmark(resourceVersion: string, initialEnd: boolean): void {
      const annotations = initialEnd ? { annotations: { 'k8s.io/initial-events-end': 'true' } } : {};
      const { kind } = request.resource;
      send('BOOKMARK', { kind, apiVersion: apiVersionOf(request.resource), metadata: { resourceVersion, ...annotations } });
    },
    error: (status: Status) => send('ERROR', status),
  };
}

/**
 * Serves one watch until its time is up, the client goes or a fault ends it. Events are handed to the socket as the
 * store makes them, so a watcher sees every change once and in order.
 */
export function serveWatch(context: ApiContext, request: WatchRequest, response: ServerResponse): WatchControl {
  const { store } = context;
  const { resource, namespace, query } = request;
  const matches = matcherOf(resource.resource, query);
  const bookmarks = ['true', '1'].includes(query.get('allowWatchBookmarks') ?? '');
  const timeoutMs = (numberParameter(query, 'timeoutSeconds') || defaultTimeoutSeconds) * 1000;
  const plan = planOf(context, request, bookmarks);
  const writer = createWriter(response, request, store.now);
  const from = versionParameter(query) ?? 0;

  const deliver = (event: StoreEvent): void => {
    if (event.resource !== resource.resource || (namespace && event.object.metadata.namespace !== namespace)) return;
    if (Number(event.object.metadata.resourceVersion) <= from) return;
    const type = seenAs(event, matches);
    if (type) writer.object(type, event.object);
  };

  response.writeHead(200, { 'content-type': request.form.yaml ? 'application/yaml' : 'application/json' });
  response.flushHeaders();
  const unsubscribe = store.subscribe(deliver);
  const ticker = setInterval(() => bookmarks && writer.bookmark(store.resourceVersion, false), bookmarkEveryMs);
  const stop = (): void => {
    unsubscribe();
    clearInterval(ticker);
    clearTimeout(timer);
  };
  const end = (): void => {
    stop();
    response.end();
  };
  const gone = (): void => {
    writer.error(expired(`too old resource version: ${from} (${store.resourceVersion})`).status);
    end();
  };
  const timer = setTimeout(() => {
    if (bookmarks) writer.bookmark(store.resourceVersion, false);
    end();
  }, timeoutMs);
  response.on('close', stop);
  if (!plan) gone();
  for (const object of plan?.initial ?? []) if (matches(object)) writer.object('ADDED', object);
  if (plan?.markInitialEnd) writer.bookmark(store.resourceVersion, true);
  for (const event of plan?.backlog ?? []) deliver(event);
  return { silence: writer.mute, close: end, gone };
}
