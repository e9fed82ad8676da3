import type { V1Pod } from '@kubernetes/client-node';
import { conditionOf } from './pod-view.ts';
import { sanitize } from './sanitize.ts';

/** Kubelet's refusals at admission: another node, or a later moment, may take the same Pod. */
export const refusedByNode =
  /^(OutOf\w+|NodeAffinity|NodePorts|TopologyAffinityError|UnexpectedAdmissionError|Preempting|Evicted|Preempted|Shutdown|NodeShutdown|Terminated)$/;
/** Also the reason of a status that a node which does not answer any more was given. */
export const nodeGone = /^(NodeLost|DeletionByTaintManager|DeletionByPodGC)$/;

/** Why the cluster takes the Pod away, or has announced to; '' = it does not. */
export function disruptionOf(pod: V1Pod): string {
  const disruption = conditionOf(pod, 'DisruptionTarget');
  return disruption?.status === 'True' ? (disruption.reason ?? 'DisruptionTarget') : '';
}

/** How the main container of a Pod ended that is not started again; undefined while it runs, or where the cluster ended it. */
export function mainEnd(pod: V1Pod, mainContainer: string): PodFinish | undefined {
  if (pod.spec?.restartPolicy !== 'Never' || takenAway(pod)) return undefined;
  const end = pod.status?.containerStatuses?.find(({ name }) => name === mainContainer)?.state?.terminated;
  // Without a start it never was what was asked for: an image that cannot be run has no result.
  if (end === undefined || notStarted.test(end.reason ?? '')) return undefined;
  return { exitCode: end.exitCode, reason: sanitize(end.reason ?? '', 100) };
}

export interface PodFinish {
  readonly exitCode: number;
  /** The kubelet's word: Completed, Error, OOMKilled. */
  readonly reason: string;
}

const notStarted = /^(StartError|ContainerCannotRun|ContainerStatusUnknown)$/;

function takenAway(pod: V1Pod): boolean {
  const { phase, reason = '' } = pod.status ?? {};
  if (pod.metadata?.deletionTimestamp !== undefined || phase === 'Unknown' || disruptionOf(pod) !== '') return true;
  return nodeGone.test(reason) || refusedByNode.test(reason);
}
