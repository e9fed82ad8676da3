import type { V1PersistentVolumeClaim, V1Pod } from '@kubernetes/client-node';
import { keys } from '../kubernetes/ownership.ts';
import { mainEnd } from '../kubernetes/pod-end.ts';
import { volumes } from '../kubernetes/reserved.ts';

/** What an instance whose record was lost is found to be. */
export type LostState =
  | { readonly kind: 'ready' | 'suspended' | 'lost'; readonly rule: string }
  | { readonly kind: 'removing'; readonly rule: string; readonly keepWorkspace: boolean };

/** `ask` = a container runs: only its agent can say whether it was set up. */
export type FirstLook = LostState | { readonly kind: 'ask'; readonly rule: string };

export interface LostObjects {
  readonly pod: V1Pod | undefined;
  readonly claim: V1PersistentVolumeClaim | undefined;
  /** A claim of somebody else's that the Pod has as its workspace. */
  readonly otherClaim?: V1PersistentVolumeClaim | undefined;
  readonly mainContainer: string;
}

/** What the objects alone say (design §7). A doubt keeps the workspace: nothing that may hold work is given up (I20). */
export function judgeLost({ pod, claim, mainContainer }: LostObjects): FirstLook {
  const kept = claim?.metadata?.annotations?.[keys.retained] === 'true';
  const claimStays = claim !== undefined && claim.metadata?.deletionTimestamp === undefined;
  if (pod === undefined) {
    if (!claimStays) return { kind: 'removing', rule: 'claim_being_deleted', keepWorkspace: false };
    return kept
      ? { kind: 'suspended', rule: 'kept_claim' }
      : { kind: 'removing', rule: 'claim_without_pod', keepWorkspace: false };
  }
  const mark = pod.metadata?.annotations?.[keys.removing];
  if (mark !== undefined) return { kind: 'removing', rule: 'teardown_begun', keepWorkspace: claimStays && mark === 'keep' };
  // What has run to its end is there as it was left, with its result.
  if (mainEnd(pod, mainContainer) !== undefined) return { kind: 'ready', rule: 'finished' };
  const keepWorkspace = claimStays && kept;
  if (disrupted(pod) && claimStays) return { kind: 'lost', rule: 'pod_disrupted' };
  if (pod.metadata?.deletionTimestamp !== undefined) return { kind: 'removing', rule: 'pod_being_deleted', keepWorkspace };
  const main = pod.status?.containerStatuses?.find((status) => status.name === mainContainer);
  if (main?.state?.running !== undefined)
    return hasAgent(pod) ? { kind: 'ask', rule: 'running' } : { kind: 'ready', rule: 'running' };
  if ((main?.restartCount ?? 0) > 0 || main?.state?.terminated !== undefined) return { kind: 'lost', rule: 'not_running' };
  return neverSetUp({ pod, claim, mainContainer });
}

/** A Pod without a set-up agent: after a restart its memory volume was emptied, before one it was never bootstrapped. */
export function judgeSilent(objects: LostObjects): LostState {
  const main = objects.pod?.status?.containerStatuses?.find((status) => status.name === objects.mainContainer);
  if ((main?.restartCount ?? 0) > 0) return { kind: 'lost', rule: 'agent_forgot' };
  return neverSetUp(objects);
}

/** Its launch was under way. A claim that is older than the Pod was worked on before: that one stays. */
function neverSetUp({ pod, claim }: LostObjects): LostState {
  const older = claim !== undefined && generationOf(claim.metadata) < generationOf(pod?.metadata);
  const kept = claim?.metadata?.annotations?.[keys.retained] === 'true';
  return { kind: 'removing', rule: 'never_bootstrapped', keepWorkspace: older || kept };
}

/** Evicted, preempted or lost with its node: not somebody's teardown. */
function disrupted(pod: V1Pod): boolean {
  if (pod.status?.phase === 'Failed' || pod.status?.phase === 'Succeeded') return true;
  return (
    pod.status?.conditions?.some((condition) => condition.type === 'DisruptionTarget' && condition.status === 'True') ?? false
  );
}

function hasAgent(pod: V1Pod): boolean {
  return pod.spec?.volumes?.some((volume) => volume.name === volumes.run) ?? false;
}

export const generationOf = (meta: V1Pod['metadata']): number => Number(meta?.annotations?.[keys.generation] ?? 0);
