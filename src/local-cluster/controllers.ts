import { quotaStatus, usedIn } from './api/quota.ts';
import { deleteObject } from './api/remove.ts';
import { resources } from './api/resources.ts';
import { followOwners, removeFinalizer } from './gc.ts';
import type { ClusterStore } from './store.ts';
import type { KubeObject, StoreEvent } from './types.ts';

const protection = 'kubernetes.io/pvc-protection';
const contents = resources.filter((resource) => resource.namespaced && !resource.virtual);

/** A claim in use by a scheduled Pod stays until that Pod is gone. */
function releaseClaims(store: ClusterStore, namespace: string): void {
  const deleted = store
    .list('persistentvolumeclaims', namespace)
    .filter(({ metadata }) => metadata.deletionTimestamp && metadata.finalizers?.includes(protection));
  if (deleted.length === 0) return;
  const inUse = new Set<string>();
  for (const pod of store.list('pods', namespace)) {
    if (!pod.spec.nodeName) continue;
    for (const volume of pod.spec.volumes ?? [])
      if (volume.persistentVolumeClaim) inUse.add(volume.persistentVolumeClaim.claimName);
  }
  for (const claim of deleted) {
    if (!inUse.has(claim.metadata.name)) removeFinalizer(store, 'persistentvolumeclaims', claim, protection);
  }
}

const remaining = (store: ClusterStore, namespace: string) =>
  contents.flatMap((resource) => store.list(resource.resource, namespace).map((object) => ({ resource, object })));

/** Empties a namespace that is being deleted, then lets it go. */
function emptyNamespace(store: ClusterStore, namespace: KubeObject): void {
  const { name, uid } = namespace.metadata;
  for (const { resource, object } of remaining(store, name)) {
    if (object.metadata.deletionTimestamp) continue;
    deleteObject(store, { resource, namespace: name, name: object.metadata.name }, { propagationPolicy: 'Background' });
  }
  const left = remaining(store, name);
  if (left.length === 0) {
    if (!namespace.metadata.finalizers?.length) store.remove('namespaces', undefined, name, uid);
    return;
  }
  const counts = new Map<string, number>();
  for (const { resource } of left) counts.set(resource.resource, (counts.get(resource.resource) ?? 0) + 1);
  const text = [...counts].map(([resource, count]) => `${resource}. has ${count} resource instances`).join(', ');
  store.update('namespaces', undefined, name, ({ status }) => {
    const message = `Some resources are remaining: ${text}`;
    status.conditions = [{ type: 'NamespaceContentRemaining', status: 'True', reason: 'SomeResourcesRemain', message }];
  });
}

/** Every namespace has an account for its Pods and the certificate to verify this server with. */
function furnish(store: ClusterStore, namespace: string, certificate: string): void {
  const base = { apiVersion: 'v1', metadata: { namespace } };
  store.create('serviceaccounts', { ...base, kind: 'ServiceAccount', metadata: { ...base.metadata, name: 'default' } });
  const annotations = { 'kubernetes.io/description': 'The certificate of the API server, for clients inside the cluster.' };
  const metadata = { ...base.metadata, name: 'kube-root-ca.crt', annotations };
  store.create('configmaps', { ...base, kind: 'ConfigMap', metadata, data: { 'ca.crt': certificate } });
}

function updateQuotas(store: ClusterStore, namespace: string): void {
  const quotas = store.list('resourcequotas', namespace);
  if (quotas.length === 0) return;
  const used = usedIn(store, namespace, resources);
  for (const quota of quotas) {
    store.update('resourcequotas', namespace, quota.metadata.name, (draft) => {
      draft.status = quotaStatus(quota, used);
    });
  }
}

/** Events are kept for an hour, as a real cluster keeps them; without this they would fill the memory. */
function dropOldEvents(store: ClusterStore): void {
  const oldest = store.now() - 3_600_000;
  for (const { metadata } of store.list('events')) {
    if (Date.parse(metadata.creationTimestamp) < oldest) store.remove('events', metadata.namespace, metadata.name);
  }
}

/** Only these can concern owner references; every other write is one check of two fields. */
const concernsOwners = ({ type, object }: StoreEvent): boolean =>
  type === 'DELETED' ||
  (type === 'ADDED' && object.metadata.ownerReferences !== undefined) ||
  (object.metadata.deletionTimestamp !== undefined && object.metadata.finalizers !== undefined);

function settle(store: ClusterStore, name: string): void {
  releaseClaims(store, name);
  updateQuotas(store, name);
  const namespace = store.get('namespaces', undefined, name);
  if (namespace?.metadata.deletionTimestamp) emptyNamespace(store, namespace);
}

/**
 * The loops that a real cluster's controller manager runs and Windlass relies on: namespace deletion, claim protection,
 * garbage collection, quota status, accounts. They act right after the write that concerns them, never inside it.
 */
export function startControllers(store: ClusterStore, certificate: string, log: (message: string) => void): () => void {
  let events: StoreEvent[] = [];
  let namespaces = new Set<string>();
  let scheduled: NodeJS.Immediate | undefined;
  const attempt = (what: () => void): void => {
    try {
      what();
    } catch (error) {
      log(`a controller of the embedded cluster failed: ${error instanceof Error ? error.stack : error}`);
    }
  };
  const run = (): void => {
    const [due, touched] = [events, namespaces];
    [events, namespaces, scheduled] = [[], new Set(), undefined];
    for (const event of due) attempt(() => followOwners(store, event));
    for (const name of touched) attempt(() => settle(store, name));
  };
  const cleaner = setInterval(() => dropOldEvents(store), 60_000).unref();
  const unsubscribe = store.subscribe((event) => {
    const { resource, type, object } = event;
    if (resource === 'namespaces' && type === 'ADDED') furnish(store, object.metadata.name, certificate);
    if (concernsOwners(event)) events.push(event);
    const namespace = resource === 'namespaces' ? object.metadata.name : object.metadata.namespace;
    if (namespace) namespaces.add(namespace);
    scheduled ??= setImmediate(run);
  });
  return () => {
    unsubscribe();
    clearInterval(cleaner);
    if (scheduled) clearImmediate(scheduled);
  };
}
