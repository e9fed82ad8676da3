import { randomBytes } from 'node:crypto';
import type { KubeObject, Store } from '../types.ts';
import { kubeTime, nodeName } from './pod-types.ts';

export interface EventInput {
  readonly type: 'Normal' | 'Warning';
  readonly reason: string;
  readonly message: string;
  /** `spec.containers{main}` when it is about a container. */
  readonly fieldPath?: string;
}

export type Component =
  | 'kubelet'
  | 'default-scheduler'
  | 'persistentvolume-controller'
  | 'node-controller'
  | 'taint-eviction-controller';

export type Recorder = (object: KubeObject, component: Component, event: EventInput) => void;

/** Writes events as the components do: the same event again raises its count. */
export function createRecorder(store: Store): Recorder {
  const names = new Map<string, string>();
  return (object, component, event) => {
    const { namespace = 'default', uid } = object.metadata;
    const key = [uid, component, event.type, event.reason, event.message, event.fieldPath ?? ''].join('\n');
    const known = names.get(key);
    const again =
      known !== undefined &&
      store.update('events', namespace, known, (old) => {
        old.count = (old.count ?? 1) + 1;
        old.lastTimestamp = kubeTime();
      }) !== undefined;
    if (again) return;
    // Bounded: an aggregation that is forgotten starts again at one.
    if (names.size > 10_000) names.clear();
    const name = `${object.metadata.name}.${randomBytes(8).toString('hex')}`;
    if (store.get('namespaces', undefined, namespace)?.metadata.deletionTimestamp !== undefined) return;
    store.create('events', { apiVersion: 'v1', kind: 'Event', metadata: { name, namespace }, ...body(object, component, event) });
    names.set(key, name);
  };
}

function body(object: KubeObject, component: Component, event: EventInput) {
  const now = kubeTime();
  const { name, namespace, uid, resourceVersion } = object.metadata;
  const host = component === 'kubelet' ? { host: nodeName } : {};
  return {
    involvedObject: {
      apiVersion: object.apiVersion,
      kind: object.kind,
      name,
      ...(namespace === undefined ? {} : { namespace }),
      uid,
      resourceVersion,
      ...(event.fieldPath === undefined ? {} : { fieldPath: event.fieldPath }),
    },
    reason: event.reason,
    message: event.message,
    type: event.type,
    source: { component, ...host },
    reportingComponent: component,
    reportingInstance: component === 'kubelet' ? nodeName : '',
    count: 1,
    eventTime: null,
    firstTimestamp: now,
    lastTimestamp: now,
  };
}
