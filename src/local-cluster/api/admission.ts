import { randomBytes } from 'node:crypto';
import type { ClusterStore } from '../store.ts';
import type { KubeObject } from '../types.ts';
import { checkPodSecurity } from './pod-security.ts';
import { type Resource, resourceNamed } from './resources.ts';
import { forbidden, notFound } from './status.ts';

const defaultClassAnnotation = 'storageclass.kubernetes.io/is-default-class';

/** Letters and digits that cannot spell a word, as the server's random names use. */
export function randomSuffix(length = 5): string {
  const alphabet = 'bcdfghjklmnpqrstvwxz2456789';
  return [...randomBytes(length)].map((byte) => alphabet[byte % alphabet.length]).join('');
}

/** 404 for a missing namespace, 403 while it is being deleted. */
export function checkNamespace(store: ClusterStore, resource: Resource, object: KubeObject): void {
  if (!resource.namespaced) return;
  const { namespace = '', name } = object.metadata;
  const found = store.get('namespaces', undefined, namespace);
  if (!found) throw notFound(resourceNamed('namespaces'), namespace);
  if (!found.metadata.deletionTimestamp) return;
  const why = `unable to create new content in namespace ${namespace} because it is being terminated`;
  throw forbidden(resource, name, why, [
    { reason: 'NamespaceTerminating', message: `namespace ${namespace} is being terminated`, field: 'metadata.namespace' },
  ]);
}

const toleration = (key: string) => ({ key, operator: 'Exists', effect: 'NoExecute', tolerationSeconds: 300 });

function addTolerations(pod: KubeObject): void {
  const tolerations: { key?: string; effect?: string; operator?: string }[] = [...(pod.spec.tolerations ?? [])];
  for (const key of ['node.kubernetes.io/not-ready', 'node.kubernetes.io/unreachable']) {
    const covered = tolerations.some((own) => (own.key === key || !own.key) && (!own.effect || own.effect === 'NoExecute'));
    if (!covered) tolerations.push(toleration(key));
  }
  pod.spec.tolerations = tolerations;
}

function tokenVolume(name: string) {
  const sources = [
    { serviceAccountToken: { expirationSeconds: 3607, path: 'token' } },
    { configMap: { name: 'kube-root-ca.crt', items: [{ key: 'ca.crt', path: 'ca.crt' }] } },
    { downwardAPI: { items: [{ path: 'namespace', fieldRef: { apiVersion: 'v1', fieldPath: 'metadata.namespace' } }] } },
  ];
  return { name, projected: { sources, defaultMode: 420 } };
}

/** Names the account and, unless switched off, mounts its token where the client libraries look for it. */
function admitServiceAccount(store: ClusterStore, resource: Resource, pod: KubeObject): void {
  const { spec, metadata } = pod;
  spec.serviceAccountName ||= spec.serviceAccount || 'default';
  spec.serviceAccount = spec.serviceAccountName;
  const account = store.get('serviceaccounts', metadata.namespace, spec.serviceAccountName);
  if (!account) {
    const name = spec.serviceAccountName;
    const why = `error looking up service account ${metadata.namespace}/${name}: serviceaccount "${name}" not found`;
    throw forbidden(resource, metadata.name, why);
  }
  if ((spec.automountServiceAccountToken ?? account.automountServiceAccountToken) === false) return;
  const path = '/var/run/secrets/kubernetes.io/serviceaccount';
  const containers: { volumeMounts?: { name: string; mountPath: string; readOnly?: boolean }[] }[] = [
    ...(spec.initContainers ?? []),
    ...(spec.containers ?? []),
  ];
  const lacking = containers.filter((one) => !one.volumeMounts?.some((mount) => mount.mountPath === path));
  if (lacking.length === 0) return;
  const volume = tokenVolume(`kube-api-access-${randomSuffix()}`);
  spec.volumes = [...(spec.volumes ?? []), volume];
  for (const one of lacking)
    one.volumeMounts = [...(one.volumeMounts ?? []), { name: volume.name, readOnly: true, mountPath: path }];
}

function admitClaim(store: ClusterStore, claim: KubeObject): void {
  const finalizers = claim.metadata.finalizers ?? [];
  if (!finalizers.includes('kubernetes.io/pvc-protection')) {
    claim.metadata.finalizers = [...finalizers, 'kubernetes.io/pvc-protection'];
  }
  if (claim.spec?.storageClassName !== undefined || !claim.spec) return;
  const standard = store.list('storageclasses').find((one) => one.metadata.annotations?.[defaultClassAnnotation] === 'true');
  if (standard) claim.spec.storageClassName = standard.metadata.name;
}

let lastAddress = 10;

function admitService(service: KubeObject): void {
  if (!service.spec || service.spec.type === 'ExternalName') return;
  lastAddress = (lastAddress % 250) + 1;
  service.spec.clusterIP ||= `10.96.0.${lastAddress}`;
  service.spec.clusterIPs ??= [service.spec.clusterIP];
  service.spec.ipFamilies ??= ['IPv4'];
  service.spec.ipFamilyPolicy ??= 'SingleStack';
}

/** The admission plugins that change new objects. */
export function admitCreate(store: ClusterStore, resource: Resource, object: KubeObject): void {
  if (resource.kind === 'Namespace') object.spec = { ...object.spec, finalizers: ['kubernetes'] };
  if (resource.kind === 'PersistentVolumeClaim') admitClaim(store, object);
  if (resource.kind === 'Service') admitService(object);
  if (resource.kind !== 'Pod' || !object.spec) return;
  admitServiceAccount(store, resource, object);
  addTolerations(object);
  object.spec.priority ??= 0;
  object.spec.preemptionPolicy ??= 'PreemptLowerPriority';
}

/** What is filled in again on updates: default tolerations of Pods, the addresses of a Service. */
export function admitUpdate(object: KubeObject, current: KubeObject): void {
  if (object.kind === 'Pod' && object.spec) addTolerations(object);
  if (object.kind !== 'Service' || !object.spec || object.spec.type !== current.spec.type) return;
  for (const field of ['clusterIP', 'clusterIPs', 'ipFamilies', 'ipFamilyPolicy'])
    object.spec[field] ??= structuredClone(current.spec[field]);
}

/** The admission plugins that may refuse a valid object, except quotas. */
export function checkPolicies(store: ClusterStore, resource: Resource, object: KubeObject, warn: (text: string) => void): void {
  if (resource.kind === 'Pod') checkPodSecurity(store, resource, object, warn);
}
