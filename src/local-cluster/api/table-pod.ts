import type { KubeObject } from '../types.ts';

// biome-ignore lint/suspicious/noExplicitAny: status parts are written by the kubelet and read defensively
type Part = any;
type Age = (since: string | undefined, now: number) => string;
type PodCell = readonly [title: string, cell: (pod: KubeObject, now: number, age: Age) => string, wide?: boolean];

const list = (value: Part): Part[] => (Array.isArray(value) ? value : []);

const endReason = (terminated: Part): string =>
  terminated.reason || (terminated.signal ? `Signal:${terminated.signal}` : `ExitCode:${terminated.exitCode}`);

const isSidecar = (pod: KubeObject, name: string): boolean =>
  list(pod.spec?.initContainers).some((one) => one.name === name && one.restartPolicy === 'Always');

/** What the init containers say, undefined once all of them are through. */
function initReason(pod: KubeObject): string | undefined {
  const statuses = list(pod.status?.initContainerStatuses);
  for (const [index, status] of statuses.entries()) {
    const { terminated, waiting } = status.state ?? {};
    if (terminated?.exitCode === 0 || (isSidecar(pod, status.name) && status.started)) continue;
    if (terminated) return `Init:${endReason(terminated)}`;
    if (waiting?.reason && waiting.reason !== 'PodInitializing') return `Init:${waiting.reason}`;
    return `Init:${index}/${list(pod.spec?.initContainers).length}`;
  }
  return undefined;
}

function containerReason(pod: KubeObject, start: string): string {
  let reason = start;
  let running = false;
  for (const status of list(pod.status?.containerStatuses).toReversed()) {
    const { terminated, waiting } = status.state ?? {};
    if (waiting?.reason) reason = waiting.reason;
    else if (terminated) reason = endReason(terminated);
    else if (status.ready && status.state?.running) running = true;
  }
  if (reason !== 'Completed' || !running) return reason;
  const ready = list(pod.status?.conditions).some((one) => one.type === 'Ready' && one.status === 'True');
  return ready ? 'Running' : 'NotReady';
}

/** The STATUS column: the most telling reason, the way kubectl users know it. */
export function podStatus(pod: KubeObject): string {
  const gated = list(pod.status?.conditions).some((one) => one.type === 'PodScheduled' && one.reason === 'SchedulingGated');
  const start = pod.status?.reason || (gated ? 'SchedulingGated' : (pod.status?.phase ?? 'Unknown'));
  const reason = initReason(pod) ?? containerReason(pod, start);
  if (!pod.metadata.deletionTimestamp) return reason;
  if (pod.status?.reason === 'NodeLost') return 'Unknown';
  return ['Failed', 'Succeeded'].includes(pod.status?.phase) ? reason : 'Terminating';
}

function ready(pod: KubeObject): string {
  const sidecars = list(pod.spec?.initContainers).filter((one) => one.restartPolicy === 'Always');
  const statuses = [
    ...list(pod.status?.containerStatuses),
    ...list(pod.status?.initContainerStatuses).filter((one) => isSidecar(pod, one.name)),
  ];
  const total = list(pod.spec?.containers).length + sidecars.length;
  return `${statuses.filter((one) => one.ready && (one.state?.running || isSidecar(pod, one.name))).length}/${total}`;
}

function restarts(pod: KubeObject, now: number, age: Age): string {
  const initializing = initReason(pod) !== undefined;
  const statuses = [
    ...list(pod.status?.initContainerStatuses).filter((one) => initializing || isSidecar(pod, one.name)),
    ...(initializing ? [] : list(pod.status?.containerStatuses)),
  ];
  const count = statuses.reduce((sum, one) => sum + (one.restartCount ?? 0), 0);
  const ends = statuses.flatMap((one) => one.lastState?.terminated?.finishedAt ?? []).sort();
  return count > 0 && ends.length > 0 ? `${count} (${age(ends.at(-1), now)} ago)` : String(count);
}

function readinessGates(pod: KubeObject): string {
  const gates = list(pod.spec?.readinessGates);
  if (gates.length === 0) return '<none>';
  const isTrue = (type: string) => list(pod.status?.conditions).some((one) => one.type === type && one.status === 'True');
  return `${gates.filter((gate) => isTrue(gate.conditionType)).length}/${gates.length}`;
}

export const podCells: readonly PodCell[] = [
  ['Name', (pod) => pod.metadata.name],
  ['Ready', ready],
  ['Status', podStatus],
  ['Restarts', restarts],
  ['Age', (pod, now, age) => age(pod.metadata.creationTimestamp, now)],
  ['IP', (pod) => pod.status?.podIP || '<none>', true],
  ['Node', (pod) => pod.spec?.nodeName || '<none>', true],
  ['Nominated Node', (pod) => pod.status?.nominatedNodeName || '<none>', true],
  ['Readiness Gates', readinessGates, true],
];
