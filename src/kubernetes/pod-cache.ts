import type { CoreV1Event, V1Pod } from '@kubernetes/client-node';
import { abortReason } from './api-error.ts';
import { eventTime } from './event-time.ts';
import { keys } from './ownership.ts';
import type { PodCache, PodChange } from './port.ts';
import type { Rest } from './rest.ts';
import { runWatch, type WatchLog } from './watch.ts';

export interface PodCacheOptions {
  readonly rest: Rest;
  readonly namespace: string;
  readonly installation: string;
  readonly log: WatchLog;
  readonly onRestart?: () => void;
  readonly idleMs?: number;
}

const eventsPerObject = 20;
/** Objects whose events are kept; the longest untouched go first. */
const objectsWithEvents = 5000;

type Listener = (change: PodChange) => void;

/** The shared watch of a cluster's Pods (of this installation) and of the events about them, started on first use. */
export function createPodCache(options: PodCacheOptions): PodCache & { close(): Promise<void> } {
  const stop = new AbortController();
  const pods = new Map<string, V1Pod>();
  const events = createEventStore();
  const listeners = new Set<Listener>();
  let markListed = () => {};
  const listed = new Promise<void>((resolve) => {
    markListed = resolve;
  });
  let running: Promise<unknown> | undefined;

  const tell = (name: string): void => {
    const change = { name, pod: pods.get(name) };
    for (const listener of listeners) {
      try {
        listener(change);
      } catch (error) {
        // One listener's fault must not stop the watch that all others live on.
        options.log.warn({ error: String(error) }, 'a listener of the Pod watch failed');
      }
    }
  };
  const put = (pod: V1Pod): void => {
    const name = pod.metadata?.name;
    if (!name) return;
    // Managed fields are a third of a Pod and nobody reads them.
    delete pod.metadata?.managedFields;
    pods.set(name, pod);
  };

  const start = (): void => {
    running ??= Promise.all([watchPods(), watchEvents()]);
  };
  const common = { rest: options.rest, signal: stop.signal, log: options.log, ...optional(options) };
  const watchPods = () =>
    runWatch<V1Pod>({
      ...common,
      resource: 'pods',
      path: `/api/v1/namespaces/${options.namespace}/pods`,
      labelSelector: `${keys.installation}=${options.installation}`,
      onList: (items) => {
        const before = new Map(pods);
        pods.clear();
        items.forEach(put);
        markListed();
        for (const [name, pod] of pods)
          if (before.get(name)?.metadata?.resourceVersion !== pod.metadata?.resourceVersion) tell(name);
        for (const name of before.keys()) if (!pods.has(name)) tell(name);
      },
      onChange: (type, pod) => {
        if (type === 'DELETED') pods.delete(pod.metadata?.name ?? '');
        else put(pod);
        tell(pod.metadata?.name ?? '');
      },
    });
  const watchEvents = () =>
    runWatch<CoreV1Event>({
      ...common,
      resource: 'events',
      path: `/api/v1/namespaces/${options.namespace}/events`,
      onList: (items) => items.forEach(events.add),
      onChange: (type, event) => {
        if (type === 'DELETED' || !events.add(event)) return;
        // Some failures (a missing ConfigMap) show in an event and nowhere else.
        const { name = '', uid } = event.involvedObject;
        if (pods.get(name)?.metadata?.uid === uid) tell(name);
      },
    });

  return {
    ready(signal) {
      start();
      return signal ? orAborted(listed, signal) : listed;
    },
    get(name) {
      start();
      return pods.get(name);
    },
    eventsOf: (uid) => events.of(uid),
    onChange(listener) {
      start();
      listeners.add(listener);
      return () => listeners.delete(listener);
    },
    async close() {
      stop.abort();
      listeners.clear();
      await running;
    },
  };
}

function optional({ onRestart, idleMs }: PodCacheOptions) {
  return { ...(onRestart ? { onRestart } : {}), ...(idleMs === undefined ? {} : { idleMs }) };
}

async function orAborted<T>(promise: Promise<T>, signal: AbortSignal): Promise<T> {
  if (signal.aborted) throw abortReason(signal);
  let onAbort = () => {};
  const aborted = new Promise<never>((_, reject) => {
    onAbort = () => reject(abortReason(signal));
    signal.addEventListener('abort', onAbort, { once: true });
  });
  try {
    return await Promise.race([promise, aborted]);
  } finally {
    signal.removeEventListener('abort', onAbort);
  }
}

/** The last events of each of our objects, by UID. Others' objects share the namespace: they are told apart by name. */
function createEventStore() {
  const byUid = new Map<string, CoreV1Event[]>();
  return {
    of: (uid: string): readonly CoreV1Event[] => byUid.get(uid) ?? [],
    /** False when the event is about something that is not ours. */
    add(event: CoreV1Event): boolean {
      const { name, uid } = event.involvedObject;
      if (!uid || !name?.startsWith('windlass-')) return false;
      // A repeated event is the same object with a higher count.
      const kept = (byUid.get(uid) ?? []).filter((known) => known.metadata.uid !== event.metadata.uid);
      kept.push(event);
      kept.sort((a, b) => eventTime(a) - eventTime(b));
      byUid.delete(uid);
      byUid.set(uid, kept.slice(-eventsPerObject));
      for (const oldest of byUid.keys()) {
        if (byUid.size <= objectsWithEvents) break;
        byUid.delete(oldest);
      }
      return true;
    },
  };
}
