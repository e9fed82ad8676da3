import type { CoreV1Event, V1Container, V1ContainerStatus, V1Pod, V1PodCondition } from '@kubernetes/client-node';
import { timeOf } from './dates.ts';
import { eventTime } from './event-time.ts';
import { sanitize } from './sanitize.ts';

/** One container of a Pod: what was asked for and what became of it. */
export interface ContainerView {
  readonly kind: 'init' | 'main' | 'other';
  readonly name: string;
  readonly spec: V1Container | undefined;
  readonly status: V1ContainerStatus | undefined;
}

/** A status without an end that lies before `since`: it belongs to an earlier life of the same Pod. */
function withoutHistory(status: V1ContainerStatus | undefined, since: number): V1ContainerStatus | undefined {
  const end = timeOf(status?.lastState?.terminated?.finishedAt);
  // In back-off the last end is the present trouble, however old.
  const backOff = status?.state?.waiting?.reason === 'CrashLoopBackOff';
  if (!status || backOff || end === undefined || end >= since) return status;
  const { lastState: _history, ...rest } = status;
  return rest;
}

/** In the order in which they can hold up the start: init containers, the main one, the rest. */
export function containersOf(pod: V1Pod, mainContainer: string, since = 0): ContainerView[] {
  const view = (kind: ContainerView['kind'], spec: V1Container, statuses: readonly V1ContainerStatus[] = []): ContainerView => ({
    kind,
    name: spec.name,
    spec,
    status: withoutHistory(
      statuses.find((status) => status.name === spec.name),
      since,
    ),
  });
  const init = (pod.spec?.initContainers ?? []).map((spec) => view('init', spec, pod.status?.initContainerStatuses));
  const regular = (pod.spec?.containers ?? []).map((spec) =>
    view(spec.name === mainContainer ? 'main' : 'other', spec, pod.status?.containerStatuses),
  );
  return [...init, ...regular.filter(({ kind }) => kind === 'main'), ...regular.filter(({ kind }) => kind === 'other')];
}

/** What the start waits for now: the first init container that is not done, else the main one. */
export function blockingContainer(containers: readonly ContainerView[]): ContainerView | undefined {
  return containers.find(({ kind, spec, status }) => {
    if (kind === 'main') return true;
    if (kind === 'other') return false;
    const restartable = spec?.restartPolicy === 'Always';
    return restartable ? status?.started !== true : status?.state?.terminated?.exitCode !== 0;
  });
}

export function conditionOf(pod: V1Pod, type: string): V1PodCondition | undefined {
  return pod.status?.conditions?.find((condition) => condition.type === type);
}

/** When a condition became true, ms; undefined while it is not. */
export function trueSince(pod: V1Pod, type: string): number | undefined {
  const condition = conditionOf(pod, type);
  return condition?.status === 'True' ? timeOf(condition.lastTransitionTime) : undefined;
}

/** Events about one container, oldest first; those that name none count for every container. */
export function eventsOfContainer(events: readonly CoreV1Event[], { name }: ContainerView): CoreV1Event[] {
  return events.filter(({ involvedObject }) => !involvedObject.fieldPath || involvedObject.fieldPath.endsWith(`{${name}}`));
}

/** First time of the first event that matches, ms. */
export function firstSeen(events: readonly CoreV1Event[], matches: (event: CoreV1Event) => boolean): number | undefined {
  const times = events.filter(matches).map((event) => timeOf(event.firstTimestamp) ?? eventTime(event));
  return times.length === 0 ? undefined : Math.min(...times);
}

/** Last text of the events that match. */
export function lastText(events: readonly CoreV1Event[], matches: (event: CoreV1Event) => boolean): string {
  return events.filter(matches).at(-1)?.message ?? '';
}

/** What was seen, bounded and cleaned, for the record of a failure. */
export function evidenceOf(
  pod: V1Pod,
  containers: readonly ContainerView[],
  events: readonly CoreV1Event[],
): Record<string, unknown> {
  const short = (text: string | undefined): string => sanitize(text ?? '', 500);
  return {
    podPhase: short(pod.status?.phase),
    ...(pod.status?.reason ? { podReason: short(pod.status.reason), podMessage: short(pod.status.message) } : {}),
    node: short(pod.spec?.nodeName),
    conditions: (pod.status?.conditions ?? [])
      .filter(({ status, type }) => status !== 'True' || type === 'DisruptionTarget')
      .slice(0, 10)
      .map(({ type, status, reason, message }) => ({
        type: short(type),
        status: short(status),
        reason: short(reason),
        message: short(message),
      })),
    containers: containers.slice(0, 20).map(({ name, kind, status }) => ({
      name,
      kind,
      restarts: status?.restartCount ?? 0,
      ...(status?.state?.waiting
        ? { waiting: { reason: short(status.state.waiting.reason), message: short(status.state.waiting.message) } }
        : {}),
      ...lastEnd(status),
    })),
    events: events
      .slice(-5)
      .map(({ reason, message, count }) => ({ reason: short(reason), message: short(message), count: count ?? 1 })),
  };
}

function lastEnd(status: V1ContainerStatus | undefined): object {
  const end = status?.state?.terminated ?? status?.lastState?.terminated;
  if (!end) return {};
  return {
    terminated: { exitCode: end.exitCode, reason: sanitize(end.reason ?? '', 100), message: sanitize(end.message ?? '', 1000) },
  };
}
