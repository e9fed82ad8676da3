import type { KubeObject } from './types.ts';

// biome-ignore lint/suspicious/noExplicitAny: parts of a validated Pod
type Part = any;

const ofPod = [
  'affinity.podAffinity',
  'affinity.podAntiAffinity',
  'dnsConfig',
  'ephemeralContainers',
  'hostAliases',
  'hostIPC',
  'hostNetwork',
  'hostPID',
  'overhead',
  'priorityClassName',
  'resourceClaims',
  'runtimeClassName',
  'securityContext.appArmorProfile',
  'securityContext.seLinuxOptions',
  'securityContext.supplementalGroups',
  'securityContext.sysctls',
  'setHostnameAsFQDN',
  'subdomain',
  'topologySpreadConstraints',
];
const ofContainer = [
  'livenessProbe.grpc',
  'readinessProbe.grpc',
  'restartPolicyRules',
  'securityContext.appArmorProfile',
  'securityContext.capabilities.add',
  'securityContext.privileged',
  'securityContext.procMount',
  'securityContext.seLinuxOptions',
  'startupProbe.grpc',
  'volumeDevices',
];
const volumeTypes = new Set([
  'configMap',
  'downwardAPI',
  'emptyDir',
  'hostPath',
  'name',
  'persistentVolumeClaim',
  'projected',
  'secret',
]);

/** Whether the field asks for something: false, empty lists and empty maps do not. */
function asksFor(object: Part, path: string): boolean {
  let value = object;
  for (const part of path.split('.')) value = value?.[part];
  return typeof value === 'object' && value !== null ? Object.keys(value).length > 0 : Boolean(value);
}

const named = (prefix: string, containers: Part[] | undefined): [string, Part][] =>
  (containers ?? []).map((container, index) => [`${prefix}[${index}]`, container]);

function volumeFields(volume: Part, index: number): string[] {
  const types = Object.keys(volume).filter((type) => !volumeTypes.has(type));
  const limited = volume.emptyDir?.sizeLimit === undefined ? [] : ['emptyDir.sizeLimit'];
  return [...types, ...limited].map((field) => `spec.volumes[${index}].${field}`);
}

/** What `asksFor` does not see: a false that asks for something, and fields of lists. */
const exceptions = (spec: Part): string[] => (spec?.hostUsers === false ? ['spec.hostUsers'] : []);
const ofPorts = (container: Part): string[] =>
  container.ports?.some((port: Part) => port.hostPort !== undefined) ? ['ports[].hostPort'] : [];

/** The fields of a Pod that the embedded node reads over: said in a warning and an event, never passed in silence. */
export function unimplementedFields(object: KubeObject): string[] {
  if (object.kind !== 'Pod') return [];
  const { spec } = object;
  const found = [...ofPod.filter((path) => asksFor(spec, path)).map((path) => `spec.${path}`), ...exceptions(spec)];
  for (const [at, container] of [
    ...named('spec.initContainers', spec.initContainers),
    ...named('spec.containers', spec.containers),
  ]) {
    const fields = [...ofContainer.filter((path) => asksFor(container, path)), ...ofPorts(container)];
    found.push(...fields.map((path) => `${at}.${path}`));
  }
  const volumes: Part[] = spec.volumes ?? [];
  return [...found, ...volumes.flatMap(volumeFields)];
}
