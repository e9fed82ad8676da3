import type { KubeObject } from '../types.ts';
import { parseQuantity } from './quantity.ts';

// biome-ignore lint/suspicious/noExplicitAny: parts of JSON objects whose shape is checked by validation, after this
type Part = any;

/** Sets what is missing (undefined or null); a value that is there stays. */
function fill(part: Part, values: Record<string, unknown>): void {
  for (const [key, value] of Object.entries(values)) part[key] ??= value;
}

const list = (value: Part): Part[] =>
  Array.isArray(value) ? value.filter((item) => typeof item === 'object' && item !== null) : [];

function defaultProbe(probe: Part): void {
  if (!probe) return;
  fill(probe, { timeoutSeconds: 1, periodSeconds: 10, successThreshold: 1, failureThreshold: 3 });
  if (probe.httpGet) fill(probe.httpGet, { path: '/', scheme: 'HTTP' });
  if (probe.grpc) fill(probe.grpc, { service: '' });
}

/** `name` without tag, or with `:latest`, is pulled always; everything else when absent. */
function pullPolicy(image: unknown): string {
  const reference = String(image ?? '');
  if (reference.includes('@')) return 'IfNotPresent';
  const [, tag = 'latest'] = /:([^/:]+)$/.exec(reference) ?? [];
  return tag === 'latest' ? 'Always' : 'IfNotPresent';
}

function defaultContainer(container: Part): void {
  fill(container, {
    resources: {},
    terminationMessagePath: '/dev/termination-log',
    terminationMessagePolicy: 'File',
    imagePullPolicy: pullPolicy(container.image),
  });
  for (const port of list(container.ports)) fill(port, { protocol: 'TCP' });
  for (const entry of list(container.env)) if (entry.valueFrom?.fieldRef) fill(entry.valueFrom.fieldRef, { apiVersion: 'v1' });
  for (const probe of [container.livenessProbe, container.readinessProbe, container.startupProbe]) defaultProbe(probe);
  for (const hook of [container.lifecycle?.postStart, container.lifecycle?.preStop]) {
    if (hook?.httpGet) fill(hook.httpGet, { path: '/', scheme: 'HTTP' });
  }
  const { limits } = container.resources;
  if (limits) container.resources.requests = { ...limits, ...container.resources.requests };
}

function defaultItems(part: Part): void {
  for (const item of list(part.items)) if (item.fieldRef) fill(item.fieldRef, { apiVersion: 'v1' });
}

function defaultVolume(volume: Part): void {
  for (const source of ['configMap', 'secret', 'projected', 'downwardAPI'])
    if (volume[source]) fill(volume[source], { defaultMode: 420 });
  if (volume.downwardAPI) defaultItems(volume.downwardAPI);
  if (volume.hostPath) fill(volume.hostPath, { type: '' });
  for (const source of list(volume.projected?.sources)) {
    if (source.downwardAPI) defaultItems(source.downwardAPI);
    if (source.serviceAccountToken) fill(source.serviceAccountToken, { expirationSeconds: 3600 });
  }
  const sources = Object.keys(volume).filter((key) => key !== 'name');
  if (sources.length === 0) volume.emptyDir = {};
}

function defaultPod(pod: KubeObject): void {
  if (typeof pod.spec !== 'object' || pod.spec === null) return;
  const { spec } = pod;
  for (const container of [...list(spec.initContainers), ...list(spec.containers)]) defaultContainer(container);
  for (const volume of list(spec.volumes)) defaultVolume(volume);
  fill(spec, {
    restartPolicy: 'Always',
    terminationGracePeriodSeconds: 30,
    dnsPolicy: 'ClusterFirst',
    securityContext: {},
    schedulerName: 'default-scheduler',
    enableServiceLinks: true,
  });
  if (spec.hostNetwork) {
    for (const container of list(spec.containers))
      for (const port of list(container.ports)) fill(port, { hostPort: port.containerPort });
  }
}

/** Guaranteed, Burstable or BestEffort, from cpu and memory of all containers. */
export function qosClass(pod: KubeObject): string {
  const containers = [...list(pod.spec?.initContainers), ...list(pod.spec?.containers)];
  const amounts = (of: Part): [string, bigint][] =>
    ['cpu', 'memory'].flatMap((name): [string, bigint][] => {
      const amount = parseQuantity(of?.[name]);
      return amount ? [[name, amount]] : [];
    });
  const every = containers.every((container) => {
    const limits = amounts(container.resources?.limits);
    const requests = new Map(amounts(container.resources?.requests));
    return limits.length === 2 && limits.every(([name, amount]) => requests.get(name) === amount);
  });
  if (every && containers.length > 0) return 'Guaranteed';
  const any = containers.some(({ resources }) => amounts(resources?.limits).length + amounts(resources?.requests).length > 0);
  return any ? 'Burstable' : 'BestEffort';
}

function defaultService(service: KubeObject): void {
  if (typeof service.spec !== 'object' || service.spec === null) return;
  fill(service.spec, { type: 'ClusterIP', sessionAffinity: 'None', internalTrafficPolicy: 'Cluster' });
  for (const port of list(service.spec.ports)) fill(port, { protocol: 'TCP', targetPort: port.port });
}

function defaultSecret(secret: KubeObject): void {
  if (typeof secret.stringData === 'object' && secret.stringData !== null) {
    const encoded = Object.entries(secret.stringData).map(([key, value]) => [key, Buffer.from(String(value)).toString('base64')]);
    secret.data = { ...secret.data, ...Object.fromEntries(encoded) };
  }
  delete secret.stringData;
  fill(secret, { type: 'Opaque' });
}

const byKind: Readonly<Record<string, (object: KubeObject) => void>> = {
  Pod: defaultPod,
  Service: defaultService,
  Secret: defaultSecret,
  PersistentVolumeClaim: (claim) => {
    if (claim.spec) fill(claim.spec, { volumeMode: 'Filesystem' });
  },
  PersistentVolume: (volume) => {
    if (volume.spec) fill(volume.spec, { volumeMode: 'Filesystem', persistentVolumeReclaimPolicy: 'Retain' });
  },
  StorageClass: (storageClass) => fill(storageClass, { reclaimPolicy: 'Delete', volumeBindingMode: 'Immediate' }),
  Namespace: (namespace) => {
    namespace.metadata.labels = { ...namespace.metadata.labels, 'kubernetes.io/metadata.name': namespace.metadata.name };
    namespace.spec ??= {};
  },
};

/** Empty maps and lists vanish where the Go types would omit them, so that compares with the real server hold. */
function dropEmpty(object: KubeObject): void {
  for (const key of ['data', 'binaryData', 'stringData']) {
    const value = object[key];
    if (value === null || (typeof value === 'object' && Object.keys(value).length === 0)) delete object[key];
  }
  const meta = object.metadata as unknown as Record<string, unknown>;
  for (const [key, value] of Object.entries(meta)) {
    if (value === null || value === '' || (typeof value === 'object' && Object.keys(value).length === 0)) delete meta[key];
  }
}

/** Fills in what the API server fills in when it decodes an object. Mutates it. */
export function applyDefaults(object: KubeObject): void {
  dropEmpty(object);
  byKind[object.kind]?.(object);
}

/** The status of a new object, for kinds whose status a client cannot create. */
export function initialStatus(object: KubeObject): unknown {
  switch (object.kind) {
    case 'Pod':
      return { phase: 'Pending', qosClass: qosClass(object) };
    case 'PersistentVolumeClaim':
    case 'PersistentVolume':
      return { phase: 'Pending' };
    case 'Namespace':
      return { phase: 'Active' };
    case 'Service':
      return { loadBalancer: {} };
    case 'Node':
      return object.status ?? {};
    default:
      return {};
  }
}
