import { deleteObject } from './api/remove.ts';
import { type Resource, resourceNamed, resources } from './api/resources.ts';
import type { ClusterStore } from './store.ts';
import type { KubeObject, StoreEvent } from './types.ts';

/** Takes one finalizer off, and the object with it when that was the last thing that kept it. */
export function removeFinalizer(store: ClusterStore, resource: string, object: KubeObject, finalizer: string): void {
  const { namespace, name, uid, finalizers = [] } = object.metadata;
  const left = finalizers.filter((one) => one !== finalizer);
  if (left.length === 0 && object.metadata.deletionTimestamp) {
    store.remove(resource, namespace, name, uid);
    return;
  }
  store.update(
    resource,
    namespace,
    name,
    ({ metadata }) => {
      if (left.length > 0) metadata.finalizers = left;
      else delete metadata.finalizers;
    },
    uid,
  );
}

type Owner = NonNullable<KubeObject['metadata']['ownerReferences']>[number];

const stored = resources.filter((resource) => !resource.virtual);

function dependentsOf(store: ClusterStore, uid: string): { resource: Resource; object: KubeObject }[] {
  return stored.flatMap((resource) =>
    store
      .list(resource.resource)
      .filter((object) => object.metadata.ownerReferences?.some((owner) => owner.uid === uid))
      .map((object) => ({ resource, object })),
  );
}

/** The owner as it is now; undefined when it is gone or the name belongs to another. */
function find(
  store: ClusterStore,
  owner: Owner,
  namespace: string | undefined,
): { resource: Resource; object: KubeObject } | undefined {
  const resource = stored.find((one) => one.kind === owner.kind);
  const object = resource && store.get(resource.resource, resource.namespaced ? namespace : undefined, owner.name);
  return resource && object?.metadata.uid === owner.uid ? { resource, object } : undefined;
}

/** Deletes what has owners but none that exists any more. Owners of kinds that are not served count as there. */
function collect(store: ClusterStore, resource: string, object: KubeObject): void {
  const { ownerReferences, namespace, name, deletionTimestamp, uid } = object.metadata;
  if (!ownerReferences?.length || deletionTimestamp) return;
  const served = ownerReferences.every((owner) => stored.some((one) => one.kind === owner.kind));
  if (!served || ownerReferences.some((owner) => find(store, owner, namespace))) return;
  deleteObject(
    store,
    { resource: resourceNamed(resource), namespace, name },
    { propagationPolicy: 'Background', preconditions: { uid } },
  );
}

/** `foregroundDeletion` waits for the dependents that block it, `orphan` cuts them loose; both then let the owner go. */
function propagate(store: ClusterStore, resource: string, owner: KubeObject): void {
  const { finalizers = [], uid, deletionTimestamp } = owner.metadata;
  if (!deletionTimestamp) return;
  if (finalizers.includes('orphan')) {
    for (const { resource: kind, object } of dependentsOf(store, uid)) {
      store.update(kind.resource, object.metadata.namespace, object.metadata.name, ({ metadata }) => {
        metadata.ownerReferences = (metadata.ownerReferences ?? []).filter((one) => one.uid !== uid);
      });
    }
    removeFinalizer(store, resource, owner, 'orphan');
  } else if (finalizers.includes('foregroundDeletion')) {
    const dependents = dependentsOf(store, uid);
    for (const { resource: kind, object } of dependents) {
      if (object.metadata.deletionTimestamp) continue;
      const { namespace, name } = object.metadata;
      deleteObject(store, { resource: kind, namespace, name }, { propagationPolicy: 'Foreground' });
    }
    const blocks = ({ object }: { object: KubeObject }): boolean =>
      object.metadata.ownerReferences?.some((one) => one.uid === uid && one.blockOwnerDeletion === true) ?? false;
    if (!dependentsOf(store, uid).some(blocks)) removeFinalizer(store, resource, owner, 'foregroundDeletion');
  }
}

/** Follows one event along the owner references, in both directions. */
export function followOwners(store: ClusterStore, { type, resource, object }: StoreEvent): void {
  const { uid, namespace, name, ownerReferences = [] } = object.metadata;
  if (type === 'DELETED') {
    for (const dependent of dependentsOf(store, uid)) collect(store, dependent.resource.resource, dependent.object);
    for (const owner of ownerReferences) {
      const found = find(store, owner, namespace);
      if (found) propagate(store, found.resource.resource, found.object);
    }
    return;
  }
  const current = store.get(resource, namespace, name);
  if (current?.metadata.uid !== uid) return;
  if (current.metadata.deletionTimestamp) propagate(store, resource, current);
  else if (type === 'ADDED') collect(store, resource, current);
}
