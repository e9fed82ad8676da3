import type { V1ContainerStatus, V1Pod } from '@kubernetes/client-node';

/** Everything that the pod failure table looks at, as one comparable text. */
export function podSignature(pod: V1Pod): string {
  const status = pod.status;
  const containers = [...(status?.initContainerStatuses ?? []), ...(status?.containerStatuses ?? [])];
  return JSON.stringify([
    pod.metadata?.uid,
    pod.metadata?.deletionTimestamp !== undefined,
    status?.phase,
    status?.reason,
    (status?.conditions ?? []).map((condition) => [condition.type, condition.status, condition.reason]),
    containers.map(containerSignature),
  ]);
}

function containerSignature(container: V1ContainerStatus): unknown[] {
  const { state } = container;
  return [
    container.name,
    container.started,
    container.restartCount,
    state?.waiting?.reason,
    state?.running !== undefined,
    state?.terminated?.exitCode,
  ];
}
