import { copyFileSync, mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { KubeObject, NodeRuntime, Store, StoreEvent } from '../types.ts';
import { takeDataFolder } from './data-folder.ts';
import { createRecorder } from './events.ts';
import { startHostSupervisor } from './host-supervisor.ts';
import { registerNode } from './node-object.ts';
import { createStreams } from './node-runtime.ts';
import type { Pod } from './pod-types.ts';
import { isOurs, PodWorker } from './pod-worker.ts';
import { chooseIsolation } from './probe-sandbox.ts';
import { createScheduler, needsNode } from './scheduler.ts';
import { createStorage } from './storage.ts';

export interface NodeOptions {
  readonly store: Store;
  /** Where Pods' and claims' folders live; made when it is not there. */
  readonly dataDir: string;
  /** Image name → folder whose content is its toolbox. */
  readonly images: Readonly<Record<string, string>>;
  readonly sandbox: 'auto' | 'none';
  readonly log: (message: string) => void;
}

/**
 * Starts the node: scheduler, storage and kubelet over the store. Rejects when the data folder belongs to a living cluster,
 * or when no supervisor can be started. What goes wrong later is an event, a condition or a line of `log`.
 */
export async function startNode(options: NodeOptions): Promise<NodeRuntime> {
  const { store, dataDir, images, log } = options;
  takeDataFolder(dataDir);
  const claims = join(dataDir, 'claims');
  mkdirSync(claims, { recursive: true });
  const supervisor = join(dataDir, 'supervisor.mjs');
  // A copy: the Pods' users may read the data folder, but perhaps not where this program is installed.
  copyFileSync(fileURLToPath(new URL('./supervisor.mjs', import.meta.url)), supervisor);
  const host = await startHostSupervisor(supervisor, dataDir, [join(dataDir, 'pods'), claims]);
  const isolation = await chooseIsolation({ sandbox: options.sandbox, dataDir, supervisor, host });
  if (isolation.mode.kind === 'path') log(`Pods run without a sandbox (${isolation.mode.reason})`);
  registerNode(store, isolation.mode.kind === 'sandbox' ? 'bubblewrap://1' : 'process://1');

  const record = createRecorder(store);
  const storage = createStorage(store, claims, record);
  const scheduler = createScheduler({ store, record, claimTrouble: storage.trouble, bindClaims: storage.bindFor });
  const workers = new Map<string, PodWorker>();
  const adopt = (pod: Pod) => {
    const { uid } = pod.metadata;
    const folder = join(dataDir, 'pods', uid);
    const worker = new PodWorker({ store, isolation, images, record, folder, pod, log, done: () => workers.delete(uid) });
    workers.set(uid, worker);
    worker.start();
  };

  const retry = once(() => scheduler.retry());
  const onPod = ({ type, object }: StoreEvent): void => {
    const pod = object as Pod;
    const worker = workers.get(pod.metadata.uid);
    if (type === 'DELETED') {
      retry();
      if (worker !== undefined) void worker.abandon().finally(() => workers.delete(pod.metadata.uid));
    } else if (worker !== undefined) worker.update(pod);
    else if (isOurs(pod)) {
      if (!['Succeeded', 'Failed'].includes(pod.status?.phase ?? '')) adopt(pod);
    } else if (needsNode(pod) && type === 'ADDED') scheduler.schedule(pod);
  };
  const onClaim = ({ type, object }: StoreEvent): void => {
    if (type === 'DELETED') storage.release(object);
    else storage.reconcile(object);
    retry();
  };
  const onConfig = ({ object }: StoreEvent): void => {
    for (const worker of workers.values())
      if (worker.pod.metadata.namespace === object.metadata.namespace) worker.configChanged();
  };
  const reactions: Readonly<Record<string, (event: StoreEvent) => void>> = {
    pods: onPod,
    persistentvolumeclaims: onClaim,
    configmaps: onConfig,
    secrets: onConfig,
    nodes: retry,
    storageclasses: () => {
      for (const claim of store.list('persistentvolumeclaims')) storage.reconcile(claim);
      retry();
    },
  };
  const unsubscribe = store.subscribe((event) => guard(log, () => reactions[event.resource]?.(event)));
  for (const claim of store.list('persistentvolumeclaims')) guard(log, () => storage.reconcile(claim));
  for (const pod of store.list('pods') as Pod[])
    guard(log, () => onPod({ type: 'ADDED', resource: 'pods', object: pod as KubeObject }));

  return {
    ...createStreams((uid) => workers.get(uid)),
    mode: isolation.mode,
    async close() {
      unsubscribe();
      await Promise.all([...workers.values()].map((worker) => worker.destroy()));
      await isolation.close();
      await host.close();
    },
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
