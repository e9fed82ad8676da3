import { copyFileSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { within } from '../../clock.ts';
import type { NodeRuntime, Store, StoreEvent } from '../types.ts';
import { unimplementedFields } from '../unimplemented.ts';
import { takeDataFolder } from './data-folder.ts';
import { createRecorder, type Recorder } from './events.ts';
import { type HostSupervisor, startHostSupervisor } from './host-supervisor.ts';
import type { Isolation } from './isolation.ts';
import { registerNode } from './node-object.ts';
import { createStreams } from './node-runtime.ts';
import type { Pod } from './pod-types.ts';
import { isOurs, PodWorker } from './pod-worker.ts';
import { findIsolation } from './probe-sandbox.ts';
import { createScheduler, needsNode } from './scheduler.ts';
import { createStorage } from './storage.ts';

const programs = ['supervisor.mjs', 'supervisor-pipes.mjs'] as const;

export interface NodeOptions {
  readonly store: Store;
  /** Until then the node makes its processes ready, but reads and writes nothing. */
  readonly seeded?: Promise<unknown>;
  /** Where Pods' and claims' folders live; made when it is not there. */
  readonly dataDir: string;
  /** Image name → folder whose content is its toolbox. */
  readonly images: Readonly<Record<string, string>>;
  readonly sandbox: 'auto' | 'none';
  readonly log: (message: string) => void;
}

const destroyMs = 10_000;

/**
 * Starts the node: scheduler, storage and kubelet over the store. Rejects when the data folder belongs to a living cluster,
 * or when no supervisor can be started. What goes wrong later is an event, a condition or a line of `log`.
 */
export async function startNode(options: NodeOptions): Promise<NodeRuntime> {
  const { store, dataDir, log } = options;
  takeDataFolder(dataDir);
  const claims = join(dataDir, 'claims');
  mkdirSync(claims, { recursive: true });
  // Copies: who runs in a sandbox may read the data folder, but perhaps not where this program is installed.
  for (const name of programs) copyFileSync(fileURLToPath(new URL(name, import.meta.url)), join(dataDir, name));
  const supervisor = join(dataDir, programs[0]);
  const { host, isolation } = await openIsolation(options, supervisor, [join(dataDir, 'pods'), claims]);
  if (isolation.mode.kind === 'path') log(`Pods run without a sandbox (${isolation.mode.reason})`);
  try {
    await options.seeded;
  } catch (error) {
    await isolation.close();
    await host.close();
    throw error;
  }
  registerNode(store, isolation.mode.kind === 'sandbox' ? 'bubblewrap://1' : 'process://1');

  const workers = new Map<string, PodWorker>();
  const react = createReactions(options, isolation, workers);
  const unsubscribe = store.subscribe((event) => guard(log, () => react(event)));
  for (const resource of ['persistentvolumeclaims', 'pods']) {
    for (const object of store.list(resource)) guard(log, () => react({ type: 'ADDED', resource, object }));
  }
  return {
    ...createStreams((uid) => workers.get(uid)),
    mode: isolation.mode,
    async close() {
      unsubscribe();
      // Bounded: the host's end takes with it what did not answer, and a close must not hang on one Pod.
      await within(Promise.all([...workers.values()].map((worker) => worker.destroy())), destroyMs);
      await within(isolation.close(), destroyMs);
      await host.close();
    },
  };
}

/** Side by side: the supervisor and the trial of the sandbox both start a Node, which is most of what a start costs. */
async function openIsolation(
  { sandbox, dataDir }: NodeOptions,
  supervisor: string,
  remove: readonly string[],
): Promise<{ readonly host: HostSupervisor; readonly isolation: Isolation }> {
  const [host, found] = await Promise.allSettled([
    startHostSupervisor(supervisor, dataDir, remove),
    findIsolation({ sandbox, dataDir, supervisor }),
  ]);
  if (host.status === 'rejected') throw host.reason;
  if (found.status === 'fulfilled') return { host: host.value, isolation: found.value(host.value) };
  await host.value.close();
  throw found.reason;
}

/** What the node does about each write to the store. */
function createReactions(
  options: NodeOptions,
  isolation: Isolation,
  workers: Map<string, PodWorker>,
): (event: StoreEvent) => void {
  const { store, dataDir } = options;
  const record = createRecorder(store);
  const storage = createStorage(store, join(dataDir, 'claims'), record);
  const scheduler = createScheduler({ store, record, claimTrouble: storage.trouble, bindClaims: storage.bindFor });
  const retry = once(() => guard(options.log, () => scheduler.retry()));
  const pods = createPodReaction({ ...options, isolation, workers, record, retry, schedule: scheduler.schedule });
  const config = ({ object }: StoreEvent): void => {
    for (const worker of workers.values()) {
      if (worker.pod.metadata.namespace === object.metadata.namespace) worker.configChanged();
    }
  };
  const reactions: Readonly<Record<string, (event: StoreEvent) => void>> = {
    pods,
    configmaps: config,
    secrets: config,
    nodes: retry,
    persistentvolumeclaims: ({ type, object }) => {
      if (type === 'DELETED') storage.release(object);
      else storage.reconcile(object);
      retry();
    },
    storageclasses: () => {
      for (const claim of store.list('persistentvolumeclaims')) storage.reconcile(claim);
      retry();
    },
  };
  return (event) => reactions[event.resource]?.(event);
}

interface PodReactionOptions extends NodeOptions {
  readonly isolation: Isolation;
  readonly workers: Map<string, PodWorker>;
  readonly record: Recorder;
  readonly retry: () => void;
  readonly schedule: (pod: Pod) => void;
}

function createPodReaction(options: PodReactionOptions): (event: StoreEvent) => void {
  const { workers, retry, schedule } = options;
  const adopt = (pod: Pod): void => {
    const { uid } = pod.metadata;
    const folder = join(options.dataDir, 'pods', uid);
    const worker = new PodWorker({ ...options, folder, pod, done: () => workers.delete(uid) });
    workers.set(uid, worker);
    worker.start();
  };
  return ({ type, object }) => {
    const pod = object as Pod;
    const worker = workers.get(pod.metadata.uid);
    const ignored = type === 'ADDED' ? unimplementedFields(pod) : [];
    if (ignored.length > 0) {
      const message = `not implemented by the embedded cluster: ${ignored.join(', ')}`;
      // Nothing is held up by it: as a Warning it would be taken for what the Pod waits for.
      options.record(pod, 'kubelet', { type: 'Normal', reason: 'FieldNotImplemented', message });
    }
    if (type === 'DELETED') {
      retry();
      if (worker !== undefined) void worker.abandon().finally(() => workers.delete(pod.metadata.uid));
    } else if (worker !== undefined) worker.update(pod);
    else if (isOurs(pod)) {
      if (!['Succeeded', 'Failed'].includes(pod.status?.phase ?? '')) adopt(pod);
    } else if (needsNode(pod) && type === 'ADDED') schedule(pod);
  };
}

/** A store listener must not throw: one Pod's trouble is not the API's. */
function guard(log: (message: string) => void, react: () => void): void {
  try {
    react();
  } catch (error) {
    log(`the node failed on an event: ${error instanceof Error ? error.stack : String(error)}`);
  }
}

/** Many changes of one turn are one retry. */
function once(run: () => void): () => void {
  let isDue = false;
  return () => {
    if (isDue) return;
    isDue = true;
    setImmediate(() => {
      isDue = false;
      run();
    });
  };
}
