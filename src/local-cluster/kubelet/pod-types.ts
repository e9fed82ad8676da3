import type { V1PodSpec } from '@kubernetes/client-node';
import type { KubeObject, RuntimeRefusal } from '../types.ts';

/** Pods as the API holds them: the client's model for the spec, our own status, whose times are strings. */
export interface Pod extends KubeObject {
  spec: V1PodSpec;
  status?: PodStatus;
}

export interface Condition {
  type: string;
  status: 'True' | 'False' | 'Unknown';
  lastProbeTime: null;
  lastTransitionTime: string;
  reason?: string;
  message?: string;
  observedGeneration?: number;
}

/** A condition before it is written. */
export type NewCondition = Omit<Condition, 'lastTransitionTime' | 'lastProbeTime'>;

export interface Terminated {
  exitCode: number;
  reason: string;
  message?: string;
  startedAt: string;
  finishedAt: string;
  containerID: string;
}

export interface ContainerState {
  waiting?: { reason: string; message?: string };
  running?: { startedAt: string };
  terminated?: Terminated;
}

export interface ContainerStatus {
  name: string;
  state: ContainerState;
  lastState: ContainerState;
  ready: boolean;
  started: boolean;
  restartCount: number;
  image: string;
  imageID: string;
  containerID?: string;
  resources?: unknown;
  volumeMounts?: unknown[];
}

export interface PodStatus {
  phase: string;
  conditions?: Condition[];
  hostIP?: string;
  hostIPs?: { ip: string }[];
  podIP?: string;
  podIPs?: { ip: string }[];
  startTime?: string;
  qosClass?: string;
  reason?: string;
  message?: string;
  observedGeneration?: number;
  initContainerStatuses?: ContainerStatus[];
  containerStatuses?: ContainerStatus[];
  [key: string]: unknown;
}

/** The only node. */
export const nodeName = 'local';
export const hostIP = '127.0.0.1';

/** Kubernetes' own form of a time: seconds, UTC. */
export function kubeTime(at: number = Date.now()): string {
  return `${new Date(at).toISOString().slice(0, 19)}Z`;
}

/** How the kubelet names a Pod in messages. */
export function podFullName(pod: Pod): string {
  return `${pod.metadata.name}_${pod.metadata.namespace}(${pod.metadata.uid})`;
}

export class Refusal extends Error implements RuntimeRefusal {
  readonly status: 400 | 404 | 500;

  constructor(status: 400 | 404 | 500, message: string) {
    super(message);
    this.name = 'Refusal';
    this.status = status;
  }
}
