import { chmodSync, mkdirSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import type { KubeObject, Store } from '../types.ts';
import type { Recorder } from './events.ts';
import { kubeTime, nodeName, type Pod } from './pod-types.ts';

const provisioner = 'windlass.dev/local';

/** The persistent volumes of the cluster: folders, made when a claim binds and removed with it. */
export interface Storage {
  /** Looks at a claim again: binds it when it binds at once, says why not otherwise. */
  reconcile(claim: KubeObject): void;
  /** Why a Pod's claims keep it from being scheduled, in the scheduler's words. */
  trouble(pod: Pod): string | undefined;
  /** Binds the claims that waited for this Pod. */
  bindFor(pod: Pod): void;
  /** A claim went: its volume and, with reclaim policy Delete, its folder go too. */
  release(claim: KubeObject): void;
}

export function createStorage(store: Store, folder: string, record: Recorder): Storage {
  const classOf = (claim: KubeObject) => store.get('storageclasses', undefined, claim.spec.storageClassName ?? '');
  return {
    reconcile(claim) {
      if (claim.metadata.deletionTimestamp !== undefined || claim.status?.phase === 'Bound') return;
      if (claim.spec.volumeName) return bindNamed(store, claim);
      if (!claim.spec.storageClassName) {
        const message = 'no persistent volumes available for this claim and no storage class is set';
        return record(claim, 'persistentvolume-controller', { type: 'Normal', reason: 'FailedBinding', message });
      }
      const storageClass = classOf(claim);
      if (storageClass === undefined) {
        const message = `storageclass.storage.k8s.io "${claim.spec.storageClassName}" not found`;
        return record(claim, 'persistentvolume-controller', { type: 'Warning', reason: 'ProvisioningFailed', message });
      }
      if (storageClass.volumeBindingMode !== 'WaitForFirstConsumer') return provision(store, folder, record, claim, storageClass);
      const message = 'waiting for first consumer to be created before binding';
      record(claim, 'persistentvolume-controller', { type: 'Normal', reason: 'WaitForFirstConsumer', message });
    },
    trouble(pod) {
      const { namespace } = pod.metadata;
      for (const name of claimNames(pod)) {
        const claim = store.get('persistentvolumeclaims', namespace, name);
        if (claim === undefined) return `persistentvolumeclaim "${name}" not found`;
        if (claim.metadata.deletionTimestamp !== undefined) return `persistentvolumeclaim "${name}" is being deleted`;
        if (claim.status?.phase === 'Bound') continue;
        if (classOf(claim)?.volumeBindingMode !== 'WaitForFirstConsumer')
          return 'pod has unbound immediate PersistentVolumeClaims';
      }
      return undefined;
    },
    bindFor(pod) {
      for (const name of claimNames(pod)) {
        const claim = store.get('persistentvolumeclaims', pod.metadata.namespace, name);
        const storageClass = claim && classOf(claim);
        if (claim && storageClass && claim.status?.phase !== 'Bound') provision(store, folder, record, claim, storageClass);
      }
    },
    release(claim) {
      const volume = store.get('persistentvolumes', undefined, claim.spec.volumeName ?? '');
      if (volume?.spec.claimRef?.uid !== claim.metadata.uid) return;
      const { name } = volume.metadata;
      if (volume.spec.persistentVolumeReclaimPolicy === 'Delete') {
        if (volume.metadata.annotations?.['pv.kubernetes.io/provisioned-by'] === provisioner) {
          rmSync(join(folder, name), { recursive: true, force: true });
        }
        store.remove('persistentvolumes', undefined, name);
      } else store.update('persistentvolumes', undefined, name, (draft) => setPhase(draft, 'Released'));
    },
  };
}

function claimNames(pod: Pod): string[] {
  return (pod.spec.volumes ?? []).flatMap((volume) => volume.persistentVolumeClaim?.claimName ?? []);
}

function setPhase(volume: KubeObject, phase: string): void {
  volume.status = { ...volume.status, phase, lastPhaseTransitionTime: kubeTime() };
}

function claimReference(claim: KubeObject) {
  const { name, namespace, uid, resourceVersion } = claim.metadata;
  return { apiVersion: 'v1', kind: 'PersistentVolumeClaim', name, namespace, uid, resourceVersion };
}

/** A claim that names its volume, made by hand. */
function bindNamed(store: Store, claim: KubeObject): void {
  const volume = store.get('persistentvolumes', undefined, claim.spec.volumeName);
  const owner: { name?: string; namespace?: string; uid?: string } | undefined = volume?.spec.claimRef;
  const { name, namespace, uid } = claim.metadata;
  if (
    volume === undefined ||
    (owner !== undefined && (owner.name !== name || owner.namespace !== namespace || (owner.uid ?? uid) !== uid))
  )
    return;
  store.update('persistentvolumes', undefined, volume.metadata.name, (draft) => {
    draft.spec.claimRef = claimReference(claim);
    setPhase(draft, 'Bound');
  });
  bound(store, claim, volume.metadata.name, volume.spec.capacity);
}

function provision(store: Store, folder: string, record: Recorder, claim: KubeObject, storageClass: KubeObject): void {
  const name = `pvc-${claim.metadata.uid}`;
  const path = join(folder, name);
  mkdirSync(path, { recursive: true });
  chmodSync(path, 0o777);
  const capacity = { storage: claim.spec.resources?.requests?.storage ?? '1Gi' };
  store.create('persistentvolumes', {
    apiVersion: 'v1',
    kind: 'PersistentVolume',
    metadata: { name, annotations: { 'pv.kubernetes.io/provisioned-by': provisioner } },
    spec: {
      accessModes: claim.spec.accessModes,
      capacity,
      claimRef: claimReference(claim),
      local: { path },
      nodeAffinity: {
        required: {
          nodeSelectorTerms: [{ matchExpressions: [{ key: 'kubernetes.io/hostname', operator: 'In', values: [nodeName] }] }],
        },
      },
      persistentVolumeReclaimPolicy: storageClass.reclaimPolicy ?? 'Delete',
      storageClassName: storageClass.metadata.name,
      volumeMode: claim.spec.volumeMode ?? 'Filesystem',
    },
    status: { phase: 'Bound', lastPhaseTransitionTime: kubeTime() },
  });
  const message = `Successfully provisioned volume ${name}`;
  record(claim, 'persistentvolume-controller', { type: 'Normal', reason: 'ProvisioningSucceeded', message });
  bound(store, claim, name, capacity);
}

function bound(store: Store, claim: KubeObject, volumeName: string, capacity: Record<string, string>): void {
  const { namespace, name, uid } = claim.metadata;
  const change = (draft: KubeObject) => {
    draft.metadata.annotations = {
      ...draft.metadata.annotations,
      'pv.kubernetes.io/bind-completed': 'yes',
      'pv.kubernetes.io/bound-by-controller': 'yes',
      'volume.beta.kubernetes.io/storage-provisioner': provisioner,
      'volume.kubernetes.io/storage-provisioner': provisioner,
    };
    draft.spec.volumeName = volumeName;
    draft.status = { ...draft.status, phase: 'Bound', accessModes: draft.spec.accessModes, capacity };
  };
  store.update('persistentvolumeclaims', namespace, name, change, uid);
}
