import type { Store } from '../types.ts';
import type { Recorder } from './events.ts';
import { kubeTime, type NewCondition, nodeName, type Pod } from './pod-types.ts';
import { pause } from './timing.ts';

/** The Pod it happens to. */
export interface FaultTarget {
  readonly pod: Pod;
  lost: boolean;
  stuck: boolean;
  fail(reason: string, message: string, graceSeconds: number, condition: NewCondition): void;
}

export interface FaultStage {
  readonly store: Store;
  readonly record: Recorder;
  readonly worker: () => FaultTarget;
  /** Aborts when the Pod is to end. */
  readonly stopping: AbortSignal;
}

/** The Pod runs for a moment before something happens to it. */
const runForMs = 500;

/** What happens to a whole Pod because of its image; the other faults concern its container only. */
export async function actOut(kind: string, stage: FaultStage): Promise<void> {
  const worker = stage.worker();
  if (kind === 'stuck-terminating') worker.stuck = true;
  const act = { evicted: evict, preempted: preempt, 'node-lost': loseNode }[kind];
  if (act === undefined) return;
  await pause(runForMs, stage.stopping);
  if (!stage.stopping.aborted) await act(stage, worker);
}

function evict({ record }: FaultStage, worker: FaultTarget): void {
  const container = worker.pod.spec.containers[0]?.name;
  const message = `The node was low on resource: memory. Threshold quantity: 100Mi, available: 51200Ki. Container ${container} was using 60000Ki, request is 0, has larger consumption of memory. `;
  record(worker.pod, 'kubelet', { type: 'Warning', reason: 'Evicted', message });
  // The hard threshold: nobody waits.
  worker.fail('Evicted', message, 1, { type: 'DisruptionTarget', status: 'True', reason: 'TerminationByKubelet', message });
}

function preempt({ store, record }: FaultStage, worker: FaultTarget): void {
  const message = `Preempted by pod 00000000-0000-4000-8000-000000000000 on node ${nodeName}`;
  record(worker.pod, 'default-scheduler', { type: 'Normal', reason: 'Preempted', message });
  const text = 'default-scheduler: preempting to accommodate a higher priority pod';
  markDeleted(store, worker, { reason: 'PreemptionByScheduler', message: text });
}

/**
 * The node stops answering, for this Pod: first it is not ready, then the taint manager deletes it, and as nobody is there
 * to confirm that, it stays until it is deleted by force.
 */
async function loseNode({ store, record, stopping }: FaultStage, worker: FaultTarget): Promise<void> {
  worker.lost = true;
  const { namespace, name, uid } = worker.pod.metadata;
  record(worker.pod, 'node-controller', { type: 'Warning', reason: 'NodeNotReady', message: 'Node is not ready' });
  store.update(
    'pods',
    namespace,
    name,
    ({ status }) => {
      status.reason = 'NodeLost';
      status.message = `Node ${nodeName} which was running pod ${name} is unresponsive`;
      for (const condition of status.conditions) {
        if (condition.type === 'Ready') Object.assign(condition, { status: 'False', lastTransitionTime: kubeTime() });
      }
    },
    uid,
  );
  await pause(runForMs, stopping);
  const message = `Marking for deletion Pod ${namespace}/${name}`;
  record(worker.pod, 'taint-eviction-controller', { type: 'Normal', reason: 'TaintManagerEviction', message });
  markDeleted(store, worker, { reason: 'DeletionByTaintManager', message: 'Taint manager: deleting due to NoExecute taint' });
}

function markDeleted(store: Store, worker: FaultTarget, disruption: { reason: string; message: string }): void {
  const { namespace, name, uid } = worker.pod.metadata;
  const grace = worker.pod.spec.terminationGracePeriodSeconds ?? 30;
  store.update(
    'pods',
    namespace,
    name,
    (draft) => {
      const now = kubeTime();
      draft.status.conditions.push({
        type: 'DisruptionTarget',
        status: 'True',
        lastProbeTime: null,
        lastTransitionTime: now,
        ...disruption,
      });
      if (draft.metadata.deletionTimestamp !== undefined) return;
      draft.metadata.deletionTimestamp = kubeTime(Date.now() + grace * 1000);
      draft.metadata.deletionGracePeriodSeconds = grace;
    },
    uid,
  );
}
