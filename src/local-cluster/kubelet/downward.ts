import { availableParallelism, totalmem } from 'node:os';
import type { V1Container, V1ResourceFieldSelector } from '@kubernetes/client-node';
import { parseQuantity } from '../api/quantity.ts';
import { hostIP, nodeName, type Pod } from './pod-types.ts';

/** A map as the downward API writes it: sorted, values quoted as Go does. */
function formatMap(map: Readonly<Record<string, string>> | undefined): string {
  const lines = Object.keys(map ?? {}).sort();
  return lines.map((key) => `${key}=${JSON.stringify(map?.[key])}`).join('\n');
}

/** The value of a fieldRef; undefined when there is no such field. */
export function fieldValue(pod: Pod, path: string, podIP: string): string | undefined {
  const subscript = /^metadata\.(labels|annotations)\['(.+)'\]$/.exec(path);
  if (subscript !== null) return pod.metadata[subscript[1] as 'labels' | 'annotations']?.[subscript[2] as string] ?? '';
  const values: Readonly<Record<string, string | undefined>> = {
    'metadata.name': pod.metadata.name,
    'metadata.namespace': pod.metadata.namespace,
    'metadata.uid': pod.metadata.uid,
    'metadata.labels': formatMap(pod.metadata.labels),
    'metadata.annotations': formatMap(pod.metadata.annotations),
    'spec.nodeName': nodeName,
    'spec.serviceAccountName': pod.spec.serviceAccountName ?? 'default',
    'status.hostIP': hostIP,
    'status.hostIPs': hostIP,
    'status.podIP': podIP,
    'status.podIPs': podIP,
  };
  return values[path];
}

/** The value of a resourceFieldRef in units of its divisor, rounded up. Limits that are not set are the node's. */
export function resourceValue(container: V1Container, { resource, divisor }: V1ResourceFieldSelector): string {
  const [list, name = ''] = resource.split('.', 2);
  const { limits, requests } = container.resources ?? {};
  const node = new Map([
    ['cpu', BigInt(availableParallelism()) * 1000n],
    ['memory', BigInt(totalmem()) * 1000n],
  ]);
  const set = list === 'limits' ? limits?.[name] : requests?.[name];
  const value = set === undefined ? (list === 'limits' ? (node.get(name) ?? 0n) : 0n) : (parseQuantity(set) ?? 0n);
  const asked = divisor === undefined ? 0n : (parseQuantity(divisor) ?? 0n);
  const unit = asked === 0n ? 1000n : asked;
  return String((value + unit - 1n) / unit);
}

/** The container that a volume's resourceFieldRef names. */
export function containerOf(pod: Pod, name: string | undefined): V1Container | undefined {
  return [...pod.spec.containers, ...(pod.spec.initContainers ?? [])].find((container) => container.name === name);
}
