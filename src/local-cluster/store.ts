import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import type { KubeObject, Store, StoreEvent } from './types.ts';

/** What the API server needs beyond `Store`: the past, for watches and for pages of one consistent list. */
export interface ClusterStore extends Store {
  /** Events after that version, oldest first; undefined when the history does not reach back that far (410). */
  since(resourceVersion: number): readonly StoreEvent[] | undefined;
  /** The objects as they were at that version, in key order; undefined when it is too old (410). */
  listAt(resource: string, namespace: string | undefined, resourceVersion: number): readonly KubeObject[] | undefined;
  /** The cluster's clock, in ms. */
  now(): number;
}

export interface StoreOptions {
  /** How many events are kept for watches; older versions answer 410. */
  readonly historySize?: number;
  /** Milliseconds; replaced by tests and by the `clock_skew_ms` fault. */
  readonly now?: () => number;
}

/** RFC 3339 with whole seconds, as the API server writes times. */
export const timestamp = (ms: number): string => `${new Date(ms).toISOString().slice(0, 19)}Z`;

const keyOf = (namespace: string | undefined, name: string): string => `${namespace ?? ''}/${name}`;

function deepFreeze<T>(value: T): T {
  if (typeof value === 'object' && value !== null && !Object.isFrozen(value)) {
    Object.freeze(value);
    for (const part of Object.values(value)) deepFreeze(part);
  }
  return value;
}

/**
 * Listeners may write: their events are queued, so that every listener sees all events in the order of their versions.
 */
function createDispatcher() {
  const listeners = new Set<(event: StoreEvent) => void>();
  const queue: StoreEvent[] = [];
  let running = false;
  return {
    subscribe(listener: (event: StoreEvent) => void): () => void {
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    emit(event: StoreEvent): void {
      queue.push(event);
      if (running) return;
      running = true;
      try {
        for (let next = queue.shift(); next; next = queue.shift()) for (const listener of [...listeners]) listener(next);
      } finally {
        running = false;
      }
    },
  };
}

/** The newest events, with the version before the oldest of them. */
function createHistory(size: number) {
  let events: StoreEvent[] = [];
  let floor = 0;
  return {
    push(event: StoreEvent): void {
      events.push(event);
      // Cut in batches: shifting on every write would be quadratic.
      if (events.length < size * 2) return;
      floor = Number(events[size - 1]!.object.metadata.resourceVersion);
      events = events.slice(size);
    },
    since(resourceVersion: number): StoreEvent[] | undefined {
      if (resourceVersion < floor) return undefined;
      let low = 0;
      let high = events.length;
      while (low < high) {
        const middle = (low + high) >> 1;
        if (Number(events[middle]!.object.metadata.resourceVersion) > resourceVersion) high = middle;
        else low = middle + 1;
      }
      return events.slice(low);
    },
  };
}

/**
 * The in-memory etcd. Objects handed out are frozen and shared with the history, so keeping one is free and changing one
 * throws; `update` gives a copy to change.
 */
export function createStore(options: StoreOptions = {}): ClusterStore {
  const now = options.now ?? Date.now;
  const tables = new Map<string, Map<string, KubeObject>>();
  const history = createHistory(options.historySize ?? 4096);
  const dispatcher = createDispatcher();
  let version = 0;
  /** What the pages of one list have in common: without it each page would sort all objects again. */
  let listed: { readonly of: string; readonly objects: readonly KubeObject[] } | undefined;

  const table = (resource: string): Map<string, KubeObject> => {
    const found = tables.get(resource) ?? new Map<string, KubeObject>();
    tables.set(resource, found);
    return found;
  };

  const write = (type: StoreEvent['type'], resource: string, object: KubeObject, previous?: KubeObject): KubeObject => {
    version += 1;
    object.metadata.resourceVersion = String(version);
    deepFreeze(object);
    const key = keyOf(object.metadata.namespace, object.metadata.name);
    if (type === 'DELETED') table(resource).delete(key);
    else table(resource).set(key, object);
    const event: StoreEvent = previous ? { type, resource, object, previous } : { type, resource, object };
    history.push(event);
    dispatcher.emit(event);
    return object;
  };

  const find = (resource: string, namespace: string | undefined, name: string, uid?: string): KubeObject | undefined => {
    const found = table(resource).get(keyOf(namespace, name));
    return uid !== undefined && found?.metadata.uid !== uid ? undefined : found;
  };

  const sorted = (objects: Map<string, KubeObject>, namespace: string | undefined): KubeObject[] => {
    const keys = [...objects.keys()].filter((key) => !namespace || key.startsWith(`${namespace}/`)).sort();
    return keys.map((key) => objects.get(key)!);
  };

  return {
    now,
    get resourceVersion() {
      return String(version);
    },
    get: (resource, namespace, name) => find(resource, namespace, name),
    list: (resource, namespace) => sorted(table(resource), namespace),
    subscribe: dispatcher.subscribe,
    since: history.since,
    create(resource, object) {
      const { name, namespace } = object.metadata;
      if (find(resource, namespace, name)) throw new Error(`${resource} "${name}" already exists`);
      const copy = structuredClone(object) as KubeObject;
      copy.metadata.uid ??= randomUUID();
      copy.metadata.creationTimestamp ??= timestamp(now());
      return write('ADDED', resource, copy);
    },
    update(resource, namespace, name, change, uid) {
      const current = find(resource, namespace, name, uid);
      if (!current) return undefined;
      const copy = structuredClone(current);
      // A write that changes nothing makes no event and no new version, as in the real storage layer.
      if (change(copy) === false || isDeepStrictEqual(copy, current)) return current;
      return write('MODIFIED', resource, copy, current);
    },
    remove(resource, namespace, name, uid) {
      const current = find(resource, namespace, name, uid);
      return current && write('DELETED', resource, structuredClone(current), current);
    },
    listAt(resource, namespace, resourceVersion) {
      const later = history.since(resourceVersion);
      if (!later) return undefined;
      const of = `${resource} ${namespace ?? ''} ${resourceVersion}`;
      if (listed?.of === of) return listed.objects;
      const objects = new Map(table(resource));
      for (const event of later.reverse()) {
        if (event.resource !== resource) continue;
        const key = keyOf(event.object.metadata.namespace, event.object.metadata.name);
        if (event.previous) objects.set(key, event.previous);
        else objects.delete(key);
      }
      listed = { of, objects: sorted(objects, namespace) };
      return listed.objects;
    },
  };
}
