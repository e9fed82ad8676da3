import type { KubeObject } from '../types.ts';
import type { Resource } from './resources.ts';
import { podCells } from './table-pod.ts';

type Cell = string | number | boolean;
type Column = readonly [
  name: string,
  cell: (object: KubeObject, now: number) => Cell,
  wide?: 'wide' | undefined,
  type?: 'integer',
];

/** An age as kubectl shows it: two units while they matter, then one. */
export function age(since: string | undefined | null, now: number): string {
  if (!since) return '<unknown>';
  const seconds = Math.max(0, Math.floor((now - Date.parse(since)) / 1000));
  if (seconds < 120) return `${seconds}s`;
  const minutes = Math.floor(seconds / 60);
  if (minutes < 10) return seconds % 60 === 0 ? `${minutes}m` : `${minutes}m${seconds % 60}s`;
  if (minutes < 180) return `${minutes}m`;
  const hours = Math.floor(minutes / 60);
  if (hours < 8) return minutes % 60 === 0 ? `${hours}h` : `${hours}h${minutes % 60}m`;
  if (hours < 48) return `${hours}h`;
  const days = Math.floor(hours / 24);
  if (days < 8) return hours % 24 === 0 ? `${days}d` : `${days}d${hours % 24}h`;
  return days < 730 ? `${days}d` : `${Math.floor(days / 365)}y`;
}

const NONE = '<none>';
const UNSET = '<unset>';
const modes: Record<string, string> = {
  ReadWriteOnce: 'RWO',
  ReadOnlyMany: 'ROX',
  ReadWriteMany: 'RWX',
  ReadWriteOncePod: 'RWOP',
};
const shortModes = (list: readonly string[] | undefined): string => (list ?? []).map((mode) => modes[mode] ?? mode).join(',');
const size = (map: object | undefined): number => Object.keys(map ?? {}).length;
const integer = (name: string, cell: (object: KubeObject) => Cell): Column => [name, cell, undefined, 'integer'];

const name: Column = ['Name', (object) => object.metadata.name];
const ageColumn: Column = ['Age', (object, now) => age(object.metadata.creationTimestamp, now)];
const deleting = (object: KubeObject, phase: string): string => (object.metadata.deletionTimestamp ? 'Terminating' : phase);

function nodeStatus(node: KubeObject): string {
  const ready = node.status?.conditions?.find((one: { type: string }) => one.type === 'Ready');
  const state = ready?.status === 'True' ? 'Ready' : ready ? 'NotReady' : 'Unknown';
  return node.spec?.unschedulable ? `${state},SchedulingDisabled` : state;
}

function nodeRoles(node: KubeObject): string {
  const prefix = 'node-role.kubernetes.io/';
  const roles = Object.keys(node.metadata.labels ?? {}).filter((key) => key.startsWith(prefix));
  return (
    roles
      .map((key) => key.slice(prefix.length))
      .sort()
      .join(',') || NONE
  );
}

const nodeAddress =
  (type: string) =>
  (node: KubeObject): string =>
    node.status?.addresses?.find((one: { type: string }) => one.type === type)?.address ?? NONE;

function servicePorts(service: KubeObject): string {
  const show = (port: { port: number; nodePort?: number; protocol: string }) =>
    `${port.port}${port.nodePort ? `:${port.nodePort}` : ''}/${port.protocol}`;
  return (service.spec?.ports ?? []).map(show).join(',') || NONE;
}

function quotaCell(prefix: string): (quota: KubeObject) => string {
  return (quota) => {
    const hard: Record<string, string> = quota.status?.hard ?? {};
    const keys = Object.keys(hard)
      .sort()
      .filter((key) => key.startsWith('limits.') === (prefix === 'limits.'));
    return keys.map((key) => `${key}: ${quota.status?.used?.[key] ?? 0}/${hard[key]}`).join(', ');
  };
}

const objectOf = ({ involvedObject }: KubeObject): string => `${involvedObject?.kind?.toLowerCase()}/${involvedObject?.name}`;
const sourceOf = ({ source, reportingComponent, reportingInstance }: KubeObject): string =>
  [source?.component || reportingComponent, source?.host || reportingInstance].filter(Boolean).join(', ');

const columns: Readonly<Record<string, readonly Column[]>> = {
  configmaps: [name, integer('Data', (object) => size(object.data) + size(object.binaryData)), ageColumn],
  events: [
    ['Last Seen', (event, now) => age(event.series?.lastObservedTime ?? event.lastTimestamp ?? event.eventTime, now)],
    ['Type', (event) => event.type ?? ''],
    ['Reason', (event) => event.reason ?? ''],
    ['Object', objectOf],
    ['Subobject', (event) => event.involvedObject?.fieldPath ?? '', 'wide'],
    ['Source', sourceOf, 'wide'],
    ['Message', (event) => (event.message ?? '').trim()],
    ['First Seen', (event, now) => age(event.firstTimestamp ?? event.eventTime, now), 'wide'],
    ['Count', (event) => event.series?.count ?? event.count ?? 1, 'wide', 'integer'],
    ['Name', (event) => event.metadata.name, 'wide'],
  ],
  leases: [name, ['Holder', (lease) => lease.spec?.holderIdentity ?? ''], ageColumn],
  namespaces: [name, ['Status', (object) => object.status?.phase ?? ''], ageColumn],
  nodes: [
    name,
    ['Status', nodeStatus],
    ['Roles', nodeRoles],
    ageColumn,
    ['Version', (node) => node.status?.nodeInfo?.kubeletVersion ?? ''],
    ['Internal-IP', nodeAddress('InternalIP'), 'wide'],
    ['External-IP', nodeAddress('ExternalIP'), 'wide'],
    ['OS-Image', (node) => node.status?.nodeInfo?.osImage || '<unknown>', 'wide'],
    ['Kernel-Version', (node) => node.status?.nodeInfo?.kernelVersion || '<unknown>', 'wide'],
    ['Container-Runtime', (node) => node.status?.nodeInfo?.containerRuntimeVersion || '<unknown>', 'wide'],
  ],
  persistentvolumeclaims: [
    name,
    ['Status', (claim) => deleting(claim, claim.status?.phase ?? '')],
    ['Volume', (claim) => claim.spec?.volumeName ?? ''],
    ['Capacity', (claim) => claim.status?.capacity?.storage ?? ''],
    ['Access Modes', (claim) => shortModes(claim.status?.accessModes)],
    ['StorageClass', (claim) => claim.spec?.storageClassName ?? ''],
    ['VolumeAttributesClass', () => UNSET],
    ageColumn,
    ['VolumeMode', (claim) => claim.spec?.volumeMode ?? UNSET, 'wide'],
  ],
  persistentvolumes: [
    name,
    ['Capacity', (volume) => volume.spec?.capacity?.storage ?? ''],
    ['Access Modes', (volume) => shortModes(volume.spec?.accessModes)],
    ['Reclaim Policy', (volume) => volume.spec?.persistentVolumeReclaimPolicy ?? ''],
    ['Status', (volume) => deleting(volume, volume.status?.phase ?? '')],
    ['Claim', ({ spec }) => (spec?.claimRef ? `${spec.claimRef.namespace}/${spec.claimRef.name}` : '')],
    ['StorageClass', (volume) => volume.spec?.storageClassName ?? ''],
    ['VolumeAttributesClass', () => UNSET],
    ['Reason', (volume) => volume.status?.reason ?? ''],
    ageColumn,
    ['VolumeMode', (volume) => volume.spec?.volumeMode ?? UNSET, 'wide'],
  ],
  pods: podCells.map(([title, cell, wide]): Column => [title, (pod, now) => cell(pod, now, age), wide ? 'wide' : undefined]),
  resourcequotas: [name, ['Request', quotaCell('requests')], ['Limit', quotaCell('limits.')], ageColumn],
  secrets: [name, ['Type', (secret) => secret.type ?? ''], integer('Data', (secret) => size(secret.data)), ageColumn],
  serviceaccounts: [name, integer('Secrets', (account) => account.secrets?.length ?? 0), ageColumn],
  services: [
    name,
    ['Type', (service) => service.spec?.type ?? ''],
    ['Cluster-IP', (service) => service.spec?.clusterIP || NONE],
    ['External-IP', (service) => service.spec?.externalName ?? NONE],
    ['Port(s)', servicePorts],
    ageColumn,
    [
      'Selector',
      ({ spec }) =>
        Object.entries(spec?.selector ?? {})
          .map(([key, value]) => `${key}=${value}`)
          .join(',') || NONE,
      'wide',
    ],
  ],
  storageclasses: [
    [
      'Name',
      ({ metadata }) =>
        metadata.annotations?.['storageclass.kubernetes.io/is-default-class'] === 'true'
          ? `${metadata.name} (default)`
          : metadata.name,
    ],
    ['Provisioner', (object) => object.provisioner],
    ['ReclaimPolicy', (object) => object.reclaimPolicy ?? ''],
    ['VolumeBindingMode', (object) => object.volumeBindingMode ?? ''],
    ['AllowVolumeExpansion', (object) => object.allowVolumeExpansion ?? false],
    ageColumn,
  ],
};

const shown = (resource: Resource): readonly Column[] => columns[resource.resource] ?? [name, ageColumn];

export const columnsOf = (resource: Resource): object[] =>
  shown(resource).map(([title, , wide, type]) => ({
    name: title,
    type: type ?? 'string',
    format: title === 'Name' ? 'name' : '',
    description: title === 'Age' ? 'Time since the object was created.' : `${title} of the ${resource.singular}.`,
    priority: wide ? 1 : 0,
  }));

export const rowCells = (resource: Resource, object: KubeObject, now: number): Cell[] =>
  shown(resource).map(([, cell]) => cell(object, now));
