import type { ClusterStore } from '../store.ts';
import type { KubeObject } from '../types.ts';
import { formatQuantity, parseQuantity } from './quantity.ts';
import type { Resource } from './resources.ts';
import { forbidden } from './status.ts';

// biome-ignore lint/suspicious/noExplicitAny: parts of validated objects
type Part = any;

type Usage = Map<string, bigint>;
const ONE = 1000n;

/** Resources that a quota may limit by their plain plural name as well as by `count/<plural>`. */
const plainCounts = new Set(['configmaps', 'persistentvolumeclaims', 'resourcequotas', 'secrets', 'services']);

const add = (usage: Usage, key: string, amount: bigint): void => void usage.set(key, (usage.get(key) ?? 0n) + amount);

/** Sum over containers, or the largest init container if that is more; sidecars count with the containers. */
function podTotal(pod: KubeObject, kind: 'requests' | 'limits', name: string): bigint {
  const amount = (container: Part): bigint => parseQuantity(container.resources?.[kind]?.[name]) ?? 0n;
  const inits: Part[] = pod.spec?.initContainers ?? [];
  const sidecars = inits.filter((one) => one.restartPolicy === 'Always');
  const sum = [...(pod.spec?.containers ?? []), ...sidecars].reduce((total: bigint, one: Part) => total + amount(one), 0n);
  return inits.reduce((most: bigint, one) => (amount(one) > most ? amount(one) : most), sum);
}

const computeNames = ['cpu', 'memory', 'ephemeral-storage'];

function podUsage(pod: KubeObject, usage: Usage): void {
  if (['Failed', 'Succeeded'].includes(pod.status?.phase)) return;
  add(usage, 'pods', ONE);
  for (const name of computeNames) {
    const requests = podTotal(pod, 'requests', name);
    add(usage, name, requests);
    add(usage, `requests.${name}`, requests);
    add(usage, `limits.${name}`, podTotal(pod, 'limits', name));
  }
}

function claimUsage(claim: KubeObject, usage: Usage): void {
  const storage = parseQuantity(claim.spec?.resources?.requests?.storage) ?? 0n;
  add(usage, 'requests.storage', storage);
  const storageClass = claim.spec?.storageClassName;
  if (!storageClass) return;
  add(usage, `${storageClass}.storageclass.storage.k8s.io/requests.storage`, storage);
  add(usage, `${storageClass}.storageclass.storage.k8s.io/persistentvolumeclaims`, ONE);
}

/** What one object uses of every resource a quota could name. */
function usageOf(resource: Resource, object: KubeObject): Usage {
  const usage: Usage = new Map();
  add(usage, `count/${resource.group ? `${resource.resource}.${resource.group}` : resource.resource}`, ONE);
  if (plainCounts.has(resource.resource)) add(usage, resource.resource, ONE);
  if (resource.kind === 'Pod') podUsage(object, usage);
  if (resource.kind === 'PersistentVolumeClaim') claimUsage(object, usage);
  return usage;
}

export function usedIn(store: ClusterStore, namespace: string, served: readonly Resource[]): Usage {
  const total: Usage = new Map();
  for (const resource of served.filter((one) => one.namespaced)) {
    for (const object of store.list(resource.resource, namespace)) {
      for (const [key, amount] of usageOf(resource, object)) add(total, key, amount);
    }
  }
  return total;
}

/** A quota on a compute resource makes every container name it. */
function checkNamed(resource: Resource, pod: KubeObject, quota: KubeObject): void {
  const lacking = new Map<string, string[]>();
  for (const key of Object.keys(quota.spec?.hard ?? {}).sort()) {
    const [kind, name] = key.startsWith('limits.')
      ? (['limits', key.slice(7)] as const)
      : (['requests', key.replace('requests.', '')] as const);
    if (!computeNames.includes(name)) continue;
    const without = [...(pod.spec?.initContainers ?? []), ...(pod.spec?.containers ?? [])]
      .filter((container: Part) => container.resources?.[kind]?.[name] === undefined)
      .map((container: Part) => container.name);
    if (without.length) lacking.set(key, without);
  }
  if (lacking.size === 0) return;
  const text = [...lacking].map(([key, names]) => `${key} for: ${names.join(',')}`).join('; ');
  throw forbidden(resource, pod.metadata.name, `failed quota: ${quota.metadata.name}: must specify ${text}`);
}

/** Refuses what would exceed a quota of its namespace, in the server's words. */
export function checkQuotas(store: ClusterStore, resource: Resource, object: KubeObject, served: readonly Resource[]): void {
  const namespace = object.metadata.namespace ?? '';
  const quotas = resource.namespaced ? store.list('resourcequotas', namespace) : [];
  if (quotas.length === 0) return;
  const used = usedIn(store, namespace, served);
  const asked = usageOf(resource, object);
  // All quotas are asked for what they demand before any of them counts.
  if (resource.kind === 'Pod') for (const quota of quotas) checkNamed(resource, object, quota);
  for (const quota of quotas) {
    const hard: Record<string, string> = quota.spec?.hard ?? {};
    const over = Object.keys(hard)
      .filter((key) => (asked.get(key) ?? 0n) > 0n && (used.get(key) ?? 0n) + asked.get(key)! > (parseQuantity(hard[key]) ?? 0n))
      .sort();
    if (over.length === 0) continue;
    const show = (amounts: Usage) => over.map((key) => `${key}=${formatQuantity(amounts.get(key) ?? 0n, hard[key])}`).join(',');
    const limited = over.map((key) => `${key}=${hard[key]}`).join(',');
    const why = `exceeded quota: ${quota.metadata.name}, requested: ${show(asked)}, used: ${show(used)}, limited: ${limited}`;
    throw forbidden(resource, object.metadata.name, why);
  }
}

/** The status a quota should have now. */
export function quotaStatus(quota: KubeObject, used: Usage): { hard: Record<string, string>; used: Record<string, string> } {
  const hard: Record<string, string> = quota.spec?.hard ?? {};
  const entries = Object.keys(hard).map((key) => [key, formatQuantity(used.get(key) ?? 0n, hard[key])]);
  return { hard: { ...hard }, used: Object.fromEntries(entries) };
}
