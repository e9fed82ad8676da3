import type { V1NodeSelectorRequirement, V1NodeSelectorTerm, V1Toleration } from '@kubernetes/client-node';
import { parseQuantity } from '../api/quantity.ts';
import type { KubeObject } from '../types.ts';
import type { Pod } from './pod-types.ts';

/** Why the Pod does not fit on the node, in the scheduler's words; undefined when it does. */
export function misfit(pod: Pod, node: KubeObject, others: readonly Pod[]): string | undefined {
  const taint = untolerated(pod, node);
  if (node.spec?.unschedulable === true && taint === undefined) return 'node(s) were unschedulable';
  if (taint !== undefined) return `node(s) had untolerated taint {${taint.key}: ${taint.value ?? ''}}`;
  if (!matchesNode(pod, node)) return "node(s) didn't match Pod's node affinity/selector";
  const short = shortage(pod, node, others);
  return short === undefined ? undefined : short;
}

function matchesNode(pod: Pod, node: KubeObject): boolean {
  const labels = node.metadata.labels ?? {};
  const selector = Object.entries(pod.spec.nodeSelector ?? {});
  if (!selector.every(([key, value]) => labels[key] === value)) return false;
  const terms = pod.spec.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms;
  return terms === undefined || terms.some((term) => matchesTerm(term, labels, node.metadata.name));
}

/** A term without requirements matches nothing. */
function matchesTerm(term: V1NodeSelectorTerm, labels: Readonly<Record<string, string>>, name: string): boolean {
  const expressions = term.matchExpressions ?? [];
  const fields = term.matchFields ?? [];
  if (expressions.length + fields.length === 0) return false;
  return expressions.every((one) => matches(one, labels[one.key])) && fields.every((one) => matches(one, name));
}

function matches({ operator, values = [] }: V1NodeSelectorRequirement, value: string | undefined): boolean {
  if (operator === 'Exists') return value !== undefined;
  if (operator === 'DoesNotExist') return value === undefined;
  if (operator === 'NotIn') return value === undefined || !values.includes(value);
  if (value === undefined) return false;
  if (operator === 'In') return values.includes(value);
  const difference = Number(value) - Number(values[0]);
  return operator === 'Gt' ? difference > 0 : operator === 'Lt' && difference < 0;
}

interface Taint {
  key: string;
  value?: string;
  effect: string;
}

function untolerated(pod: Pod, node: KubeObject): Taint | undefined {
  const taints: Taint[] = node.spec?.taints ?? [];
  const hard = taints.filter((taint) => taint.effect !== 'PreferNoSchedule');
  return hard.find((taint) => !(pod.spec.tolerations ?? []).some((toleration) => tolerates(toleration, taint)));
}

function tolerates(toleration: V1Toleration, taint: Taint): boolean {
  if (toleration.effect && toleration.effect !== taint.effect) return false;
  if (toleration.key && toleration.key !== taint.key) return false;
  return toleration.operator === 'Exists' || (toleration.value ?? '') === (taint.value ?? '');
}

const largest = (a: bigint, b: bigint): bigint => [a, b].sort((x, y) => Number(y - x))[0] as bigint;

/** A Pod's request: the sum of its containers, or its largest init container where that is more. */
function requestOf(pod: Pod, resource: string): bigint {
  const of = (container: { resources?: { requests?: Record<string, string> } }) =>
    parseQuantity(container.resources?.requests?.[resource]) ?? 0n;
  const sum = pod.spec.containers.reduce((total, container) => total + of(container), 0n);
  return (pod.spec.initContainers ?? []).reduce((most, container) => largest(most, of(container)), sum);
}

function shortage(pod: Pod, node: KubeObject, others: readonly Pod[]): string | undefined {
  const allocatable: Record<string, string> = node.status?.allocatable ?? {};
  if (BigInt(others.length) >= BigInt(allocatable.pods ?? '0')) return 'Too many pods';
  for (const resource of ['cpu', 'memory', 'ephemeral-storage']) {
    const wanted = requestOf(pod, resource);
    if (wanted === 0n) continue;
    const used = others.reduce((total, other) => total + requestOf(other, resource), 0n);
    if (used + wanted > (parseQuantity(allocatable[resource]) ?? 0n)) return `Insufficient ${resource}`;
  }
  return undefined;
}
