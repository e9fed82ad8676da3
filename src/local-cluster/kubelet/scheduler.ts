import type { Store } from '../types.ts';
import type { Recorder } from './events.ts';
import { misfit } from './node-fit.ts';
import { kubeTime, nodeName, type Pod } from './pod-types.ts';

export interface Scheduler {
  /** Tries a Pod that has no node yet. */
  schedule(pod: Pod): void;
  /** Something changed that may let waiting Pods in. */
  retry(): void;
}

export interface SchedulerOptions {
  readonly store: Store;
  readonly record: Recorder;
  /** Why the Pod's claims keep it from being scheduled. */
  readonly claimTrouble: (pod: Pod) => string | undefined;
  /** Binds the claims that waited for this Pod. */
  readonly bindClaims: (pod: Pod) => void;
}

const gone = new Set(['Succeeded', 'Failed']);

export function createScheduler({ store, record, claimTrouble, bindClaims }: SchedulerOptions): Scheduler {
  const trouble = (pod: Pod): string | undefined => {
    // The real scheduler ends these two with ". not found"; whoever matches its words gets the same ones.
    const claims = claimTrouble(pod);
    if (claims !== undefined) return `0/1 nodes are available: ${claims}. not found`;
    const node = store.get('nodes', undefined, nodeName);
    if (node === undefined) return 'no nodes available to schedule pods';
    const others = (store.list('pods') as Pod[]).filter(
      (other) => other.spec.nodeName === nodeName && !gone.has(other.status?.phase ?? ''),
    );
    const reason = misfit(pod, node, others);
    if (reason === undefined) return undefined;
    const preemption = 'preemption: 0/1 nodes are available: 1 Preemption is not helpful for scheduling.';
    return `0/1 nodes are available: 1 ${reason}. no new claims to deallocate, ${preemption}`;
  };
  const schedule = (pod: Pod): void => {
    if ((pod.spec.schedulingGates ?? []).length > 0) {
      refuse(store, pod, 'SchedulingGated', 'Scheduling is blocked due to non-empty scheduling gates');
      return;
    }
    const message = trouble(pod);
    if (message !== undefined) {
      record(pod, 'default-scheduler', { type: 'Warning', reason: 'FailedScheduling', message });
      refuse(store, pod, 'Unschedulable', message);
      return;
    }
    bindClaims(pod);
    assign(store, pod);
    const { namespace, name } = pod.metadata;
    const assigned = `Successfully assigned ${namespace}/${name} to ${nodeName}`;
    record(pod, 'default-scheduler', { type: 'Normal', reason: 'Scheduled', message: assigned });
  };
  const retry = () => {
    for (const pod of store.list('pods') as Pod[]) if (needsNode(pod)) schedule(pod);
  };
  return { schedule, retry };
}

export function needsNode(pod: Pod): boolean {
  const { schedulerName = 'default-scheduler', nodeName: node } = pod.spec;
  return !node && schedulerName === 'default-scheduler' && pod.metadata.deletionTimestamp === undefined;
}

function assign(store: Store, pod: Pod): void {
  const { namespace, name, uid } = pod.metadata;
  store.update(
    'pods',
    namespace,
    name,
    (draft) => {
      draft.spec.nodeName = nodeName;
      setScheduled(draft as Pod, { status: 'True' });
    },
    uid,
  );
}

function refuse(store: Store, pod: Pod, reason: string, message: string): void {
  const { namespace, name, uid } = pod.metadata;
  store.update('pods', namespace, name, (draft) => setScheduled(draft as Pod, { status: 'False', reason, message }), uid);
}

function setScheduled(pod: Pod, value: { status: 'True' | 'False'; reason?: string; message?: string }): void {
  const conditions = pod.status?.conditions ?? [];
  const before = conditions.find((condition) => condition.type === 'PodScheduled');
  const lastTransitionTime = before?.status === value.status ? before.lastTransitionTime : kubeTime();
  const generation = pod.metadata.generation === undefined ? {} : { observedGeneration: pod.metadata.generation };
  const next = { type: 'PodScheduled', lastProbeTime: null, lastTransitionTime, ...generation, ...value };
  pod.status = { ...pod.status, phase: 'Pending', conditions: [...conditions.filter((condition) => condition !== before), next] };
}
