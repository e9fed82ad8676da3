import type { CoreV1Event, V1Pod } from '@kubernetes/client-node';
import type { ErrorCode } from '../error-codes.ts';
import { nodeGone } from './pod-end.ts';
import { podEnd } from './pod-failure.ts';
import { containersOf, evidenceOf } from './pod-view.ts';
import { sanitize } from './sanitize.ts';

/** Why a Pod that ran can never run again. */
export interface PodLoss {
  readonly code: ErrorCode;
  readonly message: string;
  readonly evidence: Record<string, unknown>;
}

/**
 * Undefined while the Pod may go on. A container that ended is no loss: the kubelet starts it again. Nor is the mere
 * announcement of a disruption, which the cluster may take back.
 */
export function podLoss(pod: V1Pod, mainContainer: string, events: readonly CoreV1Event[]): PodLoss | undefined {
  if (!isOver(pod)) return undefined;
  const containers = containersOf(pod, mainContainer);
  const end = podEnd(pod, containers);
  if (end === undefined) return undefined;
  return {
    code: end.code,
    message: sanitize(end.message, 1500),
    evidence: { ...evidenceOf(pod, containers, events), ...end.evidence },
  };
}

/** A deletion cannot be taken back, a phase cannot either, and of a node that does not answer nobody knows better. */
export function isOver(pod: V1Pod): boolean {
  const { phase = '', reason = '' } = pod.status ?? {};
  return (
    pod.metadata?.deletionTimestamp !== undefined || ['Failed', 'Succeeded', 'Unknown'].includes(phase) || nodeGone.test(reason)
  );
}

/** The loss of a Pod of which nothing is left to look at but the events about it. */
export function goneLoss(
  pod: { readonly name: string; readonly uid: string; readonly node: string },
  events: readonly CoreV1Event[],
): PodLoss {
  const seen = events
    .slice(-5)
    .map(({ reason, message }) => ({ reason: sanitize(reason ?? '', 100), message: sanitize(message ?? '', 500) }));
  const evidence = { pod: pod.name, uid: pod.uid, node: pod.node, events: seen };
  return { code: 'pod_disrupted', message: 'The Pod was deleted by somebody else.', evidence };
}

/** A container as it was started last: '' while it never was. */
export function startOf(pod: V1Pod, container: string): { readonly id: string; readonly restarts: number } {
  const status = pod.status?.containerStatuses?.find(({ name }) => name === container);
  return { id: status?.containerID ?? '', restarts: status?.restartCount ?? 0 };
}
