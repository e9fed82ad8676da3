import type { CoreV1Event, V1Pod } from '@kubernetes/client-node';
import type { ProfileConfig } from '../config/schema.ts';
import { timeOf } from './dates.ts';
import { eventTime } from './event-time.ts';
import {
  blockingContainer,
  type ContainerView,
  conditionOf,
  eventsOfContainer,
  firstSeen,
  lastText,
  trueSince,
} from './pod-view.ts';

export type WaitReason = 'scheduling' | 'storage' | 'pulling' | 'starting';
export type Budgets = ProfileConfig['budgets'];

/** Where a Pod that does not run yet stands. Times are server ms. */
export interface PodPhase {
  readonly reason: WaitReason;
  readonly since: number;
  readonly budgetMs: number;
  /** The cluster's own words, raw. */
  readonly words: string;
}

/** Budgets start with their phase, by the Pod's own times, so that any worker judges alike. */
export function phaseOf(
  pod: V1Pod,
  containers: readonly ContainerView[],
  events: readonly CoreV1Event[],
  budgets: Budgets,
): PodPhase {
  const created = timeOf(pod.metadata?.creationTimestamp) ?? 0;
  const scheduled = trueSince(pod, 'PodScheduled') ?? (pod.spec?.nodeName ? created : undefined);
  if (scheduled === undefined) return scheduling(pod, created, events, budgets);
  const blocking = blockingContainer(containers);
  const own = blocking ? eventsOfContainer(events, blocking) : [];
  const placed = trueSince(pod, 'PodReadyToStartContainers') ?? firstSeen(events, isImageEvent);
  if (placed === undefined && !hasStarted(containers))
    return { reason: 'storage', since: scheduled, budgetMs: budgets.storage * 1000, words: lastText(events, isMountEvent) };
  const from = Math.max(placed ?? scheduled, lastInitEnd(containers));
  const pulled = lastOf(own, (event) => event.reason === 'Pulled' || event.reason === 'Created' || event.reason === 'Started');
  if (pulled !== undefined || hasStarted(blocking ? [blocking] : []))
    return {
      reason: 'starting',
      since: Math.max(pulled ?? from, from),
      budgetMs: budgets.start * 1000,
      words: lastText(own, isWarning),
    };
  const pulling = firstSeen(own, (event) => event.reason === 'Pulling');
  // Without events (none granted, or expired) the end of the pull cannot be seen: both budgets then count as one.
  const budget = pulling === undefined ? budgets.pull + budgets.start : budgets.pull;
  return { reason: 'pulling', since: Math.max(pulling ?? from, from), budgetMs: budget * 1000, words: lastText(own, isWarning) };
}

/** A claim that is bound at once and is not bound yet holds up the scheduler: that is storage, whatever the condition. */
function scheduling(pod: V1Pod, created: number, events: readonly CoreV1Event[], budgets: Budgets): PodPhase {
  const words = conditionOf(pod, 'PodScheduled')?.message ?? lastText(events, (event) => event.reason === 'FailedScheduling');
  if (/unbound immediate PersistentVolumeClaims/i.test(words))
    return { reason: 'storage', since: created, budgetMs: budgets.storage * 1000, words };
  // A node is being made for this Pod: the wait for it starts anew.
  const scaleUp = lastOf(events, (event) => event.reason === 'TriggeredScaleUp') ?? 0;
  return { reason: 'scheduling', since: Math.max(created, scaleUp), budgetMs: budgets.schedule * 1000, words };
}

/** Mount problems by which a ConfigMap or Secret that does not exist shows, and only so. */
export function missingMount(events: readonly CoreV1Event[]): { readonly text: string; readonly since: number } | undefined {
  const missing = (event: CoreV1Event): boolean =>
    event.reason === 'FailedMount' &&
    /(configmap|secret) "[^"]*" not found|references non-existent (config|secret) key/i.test(event.message ?? '');
  const since = firstSeen(events, missing);
  return since === undefined ? undefined : { text: lastText(events, missing), since };
}

const isWarning = (event: CoreV1Event): boolean => event.type === 'Warning';
const isImageEvent = ({ reason }: CoreV1Event): boolean => reason === 'Pulling' || reason === 'Pulled';
const isMountEvent = ({ reason }: CoreV1Event): boolean =>
  [
    'FailedMount',
    'FailedAttachVolume',
    'FailedMapVolume',
    'FailedCreatePodSandBox',
    'FailedBinding',
    'ProvisioningFailed',
  ].includes(reason ?? '');

function lastOf(events: readonly CoreV1Event[], matches: (event: CoreV1Event) => boolean): number | undefined {
  const last = events.filter(matches).at(-1);
  return last && eventTime(last);
}

/** True when one of them has run already, whatever became of it. */
function hasStarted(containers: readonly ContainerView[]): boolean {
  return containers.some(({ status }) => status?.state?.running ?? status?.state?.terminated ?? status?.lastState?.terminated);
}

function lastInitEnd(containers: readonly ContainerView[]): number {
  const ends = containers.map(({ kind, status }) => (kind === 'init' ? (timeOf(status?.state?.terminated?.finishedAt) ?? 0) : 0));
  return Math.max(0, ...ends);
}
