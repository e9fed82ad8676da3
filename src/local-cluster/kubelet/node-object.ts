import { hostname, release } from 'node:os';
import type { Store } from '../types.ts';
import { hostIP, kubeTime, nodeName } from './pod-types.ts';

/** Kubernetes' name of this machine's architecture. */
const architecture = process.arch === 'x64' ? 'amd64' : process.arch;

/**
 * What Pods may ask for together. Far more than a machine has: here requests are for the scheduler's arithmetic only, and
 * hundreds of small Pods shall fit on a laptop.
 */
const capacity = { cpu: '512', memory: '1Ti', 'ephemeral-storage': '1Ti', pods: '2000' } as const;

const healthy = [
  ['MemoryPressure', 'False', 'KubeletHasSufficientMemory', 'kubelet has sufficient memory available'],
  ['DiskPressure', 'False', 'KubeletHasNoDiskPressure', 'kubelet has no disk pressure'],
  ['PIDPressure', 'False', 'KubeletHasSufficientPID', 'kubelet has sufficient PID available'],
  ['Ready', 'True', 'KubeletReady', 'kubelet is posting ready status'],
] as const;

/** Registers the node, or takes over the object that is there. */
export function registerNode(store: Store, runtime: string): void {
  const node = describe(runtime);
  const known = store.update('nodes', undefined, nodeName, (draft) => {
    draft.metadata.labels = { ...draft.metadata.labels, ...node.metadata.labels };
    draft.status = node.status;
  });
  if (known === undefined) store.create('nodes', node);
}

function describe(runtime: string) {
  const now = kubeTime();
  return {
    apiVersion: 'v1',
    kind: 'Node',
    metadata: {
      name: nodeName,
      labels: {
        'beta.kubernetes.io/arch': architecture,
        'beta.kubernetes.io/os': 'linux',
        'kubernetes.io/arch': architecture,
        'kubernetes.io/hostname': nodeName,
        'kubernetes.io/os': 'linux',
      },
    },
    spec: {},
    status: {
      capacity,
      allocatable: capacity,
      addresses: [
        { type: 'InternalIP', address: hostIP },
        { type: 'Hostname', address: nodeName },
      ],
      conditions: healthy.map(([type, status, reason, message]) => ({
        type,
        status,
        reason,
        message,
        lastHeartbeatTime: now,
        lastTransitionTime: now,
      })),
      nodeInfo: {
        architecture,
        operatingSystem: 'linux',
        kernelVersion: release(),
        osImage: hostname(),
        kubeletVersion: 'v1.34.0',
        kubeProxyVersion: '',
        containerRuntimeVersion: runtime,
        machineID: '',
        systemUUID: '',
        bootID: '',
      },
    },
  };
}
