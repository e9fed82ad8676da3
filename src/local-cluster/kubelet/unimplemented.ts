import type { V1Container, V1PodSpec, V1Probe } from '@kubernetes/client-node';

type Check<T> = readonly [field: string, isSet: (value: T) => boolean];

const podChecks: readonly Check<V1PodSpec>[] = [
  ['hostNetwork', (spec) => spec.hostNetwork === true],
  ['hostPID', (spec) => spec.hostPID === true],
  ['hostIPC', (spec) => spec.hostIPC === true],
  ['hostUsers', (spec) => spec.hostUsers !== undefined],
  ['hostAliases', (spec) => (spec.hostAliases ?? []).length > 0],
  ['dnsConfig', (spec) => spec.dnsConfig !== undefined],
  ['runtimeClassName', (spec) => spec.runtimeClassName !== undefined],
  ['ephemeralContainers', (spec) => (spec.ephemeralContainers ?? []).length > 0],
  ['resourceClaims', (spec) => (spec.resourceClaims ?? []).length > 0],
  ['topologySpreadConstraints', (spec) => (spec.topologySpreadConstraints ?? []).length > 0],
  ['affinity.podAffinity', (spec) => spec.affinity?.podAffinity !== undefined],
  ['affinity.podAntiAffinity', (spec) => spec.affinity?.podAntiAffinity !== undefined],
  ['securityContext.supplementalGroups', (spec) => (spec.securityContext?.supplementalGroups ?? []).length > 0],
  ['securityContext.sysctls', (spec) => (spec.securityContext?.sysctls ?? []).length > 0],
];

const containerChecks: readonly Check<V1Container>[] = [
  ['volumeDevices', (container) => (container.volumeDevices ?? []).length > 0],
  ['securityContext.privileged', (container) => container.securityContext?.privileged === true],
  ['securityContext.capabilities.add', (container) => (container.securityContext?.capabilities?.add ?? []).length > 0],
  ['ports[].hostPort', (container) => (container.ports ?? []).some((port) => port.hostPort !== undefined)],
  ['startupProbe.grpc', (container) => isGrpc(container.startupProbe)],
  ['livenessProbe.grpc', (container) => isGrpc(container.livenessProbe)],
  ['readinessProbe.grpc', (container) => isGrpc(container.readinessProbe)],
];

const knownVolumes = new Set([
  'emptyDir',
  'configMap',
  'secret',
  'projected',
  'downwardAPI',
  'persistentVolumeClaim',
  'hostPath',
]);

function isGrpc(probe: V1Probe | undefined): boolean {
  return probe?.grpc !== undefined;
}

/** Paths of the fields of a Pod that the node takes but does not act on: an API warning and an event, never silence. */
export function unimplementedFields(spec: V1PodSpec): string[] {
  const containers = [
    ...(spec.initContainers ?? []).map((container, index) => [`spec.initContainers[${index}]`, container] as const),
    ...(spec.containers ?? []).map((container, index) => [`spec.containers[${index}]`, container] as const),
  ];
  const volumes = (spec.volumes ?? []).flatMap((volume, index) => {
    const kinds = Object.keys(volume).filter((key) => key !== 'name' && !knownVolumes.has(key));
    const size = volume.emptyDir?.sizeLimit === undefined ? [] : ['emptyDir.sizeLimit'];
    return [...kinds, ...size].map((field) => `spec.volumes[${index}].${field}`);
  });
  return [
    ...podChecks.filter(([, isSet]) => isSet(spec)).map(([field]) => `spec.${field}`),
    ...containers.flatMap(([path, container]) =>
      containerChecks.filter(([, isSet]) => isSet(container)).map(([field]) => `${path}.${field}`),
    ),
    ...volumes,
  ];
}
