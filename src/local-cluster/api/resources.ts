import type { Named } from './status.ts';

/** One served kind. */
export interface Resource extends Named {
  readonly version: string;
  readonly namespaced: boolean;
  readonly singular: string;
  readonly shortNames?: readonly string[];
  readonly categories?: readonly string[];
  readonly subresources?: readonly string[];
  /** Spec and status are written through different paths. */
  readonly hasStatus?: boolean;
  /** DELETE answers with the object instead of a Status. */
  readonly returnsDeleted?: boolean;
  /** Reviews are answered, not stored. */
  readonly virtual?: boolean;
}

const core = { group: '', version: 'v1', namespaced: true };

export const resources: readonly Resource[] = [
  { ...core, resource: 'configmaps', kind: 'ConfigMap', singular: 'configmap', shortNames: ['cm'] },
  { ...core, resource: 'events', kind: 'Event', singular: 'event', shortNames: ['ev'] },
  {
    ...core,
    resource: 'namespaces',
    kind: 'Namespace',
    singular: 'namespace',
    namespaced: false,
    shortNames: ['ns'],
    subresources: ['status', 'finalize'],
    hasStatus: true,
    returnsDeleted: true,
  },
  {
    ...core,
    resource: 'nodes',
    kind: 'Node',
    singular: 'node',
    namespaced: false,
    shortNames: ['no'],
    subresources: ['status'],
    hasStatus: true,
  },
  {
    ...core,
    resource: 'persistentvolumeclaims',
    kind: 'PersistentVolumeClaim',
    singular: 'persistentvolumeclaim',
    shortNames: ['pvc'],
    subresources: ['status'],
    hasStatus: true,
    returnsDeleted: true,
  },
  {
    ...core,
    resource: 'persistentvolumes',
    kind: 'PersistentVolume',
    singular: 'persistentvolume',
    namespaced: false,
    shortNames: ['pv'],
    subresources: ['status'],
    hasStatus: true,
    returnsDeleted: true,
  },
  {
    ...core,
    resource: 'pods',
    kind: 'Pod',
    singular: 'pod',
    shortNames: ['po'],
    categories: ['all'],
    subresources: ['status', 'log', 'exec', 'attach', 'portforward'],
    hasStatus: true,
    returnsDeleted: true,
  },
  {
    ...core,
    resource: 'resourcequotas',
    kind: 'ResourceQuota',
    singular: 'resourcequota',
    shortNames: ['quota'],
    subresources: ['status'],
    hasStatus: true,
    returnsDeleted: true,
  },
  { ...core, resource: 'secrets', kind: 'Secret', singular: 'secret' },
  {
    ...core,
    resource: 'serviceaccounts',
    kind: 'ServiceAccount',
    singular: 'serviceaccount',
    shortNames: ['sa'],
    returnsDeleted: true,
  },
  {
    ...core,
    resource: 'services',
    kind: 'Service',
    singular: 'service',
    shortNames: ['svc'],
    categories: ['all'],
    subresources: ['status'],
    hasStatus: true,
    returnsDeleted: true,
  },
  {
    resource: 'storageclasses',
    kind: 'StorageClass',
    group: 'storage.k8s.io',
    version: 'v1',
    namespaced: false,
    singular: 'storageclass',
    shortNames: ['sc'],
    returnsDeleted: true,
  },
  { resource: 'leases', kind: 'Lease', group: 'coordination.k8s.io', version: 'v1', namespaced: true, singular: 'lease' },
  {
    resource: 'selfsubjectaccessreviews',
    kind: 'SelfSubjectAccessReview',
    group: 'authorization.k8s.io',
    version: 'v1',
    namespaced: false,
    singular: 'selfsubjectaccessreview',
    virtual: true,
  },
];

export const apiVersionOf = (of: Pick<Resource, 'group' | 'version'>): string =>
  of.group ? `${of.group}/${of.version}` : of.version;

export const findResource = (group: string, version: string, resource: string): Resource | undefined =>
  resources.find((entry) => entry.resource === resource && entry.group === group && entry.version === version);

/** The store is keyed by plural names, which are unique among the kinds served here. */
export const resourceNamed = (resource: string): Resource => {
  const found = resources.find((entry) => entry.resource === resource);
  if (!found) throw new Error(`no resource ${resource} in the embedded cluster`);
  return found;
};
