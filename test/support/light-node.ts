import { randomUUID } from 'node:crypto';
import type { NodeOptions, StartNode } from '../../src/local-cluster/cluster.ts';
import type { KubeObject, NodeRuntime, Store } from '../../src/local-cluster/types.ts';

/** A node without processes, so that hundreds of Pods fit: they run as soon as they are made and end when they are deleted. */
export interface LightNode {
  readonly start: StartNode;
  /** Names of Pods whose deletion was asked for, in order. */
  readonly deleted: readonly string[];
  /** From now on Pods that are deleted stay Terminating, until `letGo`. */
  hold(): void;
  letGo(): void;
}

export function createLightNode(): LightNode {
  const deleted: string[] = [];
  const held: (() => void)[] = [];
  let holding = false;
  const end = (store: Store, { metadata: { namespace, name, uid } }: KubeObject): void => {
    deleted.push(name);
    const remove = () => void setImmediate(() => store.remove('pods', namespace, name, uid));
    if (holding) held.push(remove);
    else remove();
  };
  return {
    deleted,
    hold() {
      holding = true;
    },
    letGo() {
      holding = false;
      for (const remove of held.splice(0)) remove();
    },
    async start({ store }: NodeOptions): Promise<NodeRuntime> {
      const unsubscribe = store.subscribe(({ resource, type, object, previous }) => {
        if (resource !== 'pods') return;
        if (type === 'ADDED') run(store, object);
        if (type === 'MODIFIED' && object.metadata.deletionTimestamp && !previous?.metadata.deletionTimestamp) end(store, object);
      });
      return { ...refusing, close: async () => unsubscribe() };
    },
  };
}

function run(store: Store, { metadata }: KubeObject): void {
  store.update('pods', metadata.namespace, metadata.name, (pod) => {
    const state = { running: { startedAt: metadata.creationTimestamp } };
    const containerStatuses = pod.spec.containers.map(({ name, image }: { name: string; image: string }) => {
      const containerID = `light://${randomUUID()}`;
      return { name, image, imageID: image, containerID, ready: true, started: true, restartCount: 0, state };
    });
    const conditions = ['PodScheduled', 'Initialized', 'ContainersReady', 'Ready'].map((type) => ({ type, status: 'True' }));
    pod.spec.nodeName = 'light';
    pod.status = { ...pod.status, phase: 'Running', podIP: '127.0.0.2', conditions, containerStatuses };
  });
}

const refuse = () => Promise.reject({ status: 500, message: 'there are no processes on this node' });
const refusing: Omit<NodeRuntime, 'close'> = {
  mode: { kind: 'path', reason: 'a node without processes' },
  exec: refuse,
  attach: refuse,
  logs: refuse,
  dial: refuse,
};
