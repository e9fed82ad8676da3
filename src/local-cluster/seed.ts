import { cpus, release, totalmem } from 'node:os';
import { version } from './api/discovery.ts';
import type { ClusterStore } from './store.ts';

const arch = process.arch === 'x64' ? 'amd64' : process.arch;
const isDefault = 'storageclass.kubernetes.io/is-default-class';

function seedNode(store: ClusterStore): void {
  const memory = `${Math.floor(totalmem() / 1024)}Ki`;
  const amounts = { cpu: String(cpus().length), memory, pods: '1000', 'ephemeral-storage': '100Gi' };
  const now = new Date(store.now()).toISOString().replace(/\.\d+Z$/, 'Z');
  const ready = { type: 'Ready', status: 'True', reason: 'KubeletReady', message: 'the embedded node is ready' };
  const labels = {
    'kubernetes.io/arch': arch,
    'kubernetes.io/os': 'linux',
    'kubernetes.io/hostname': 'local',
  };
  const status = {
    capacity: amounts,
    allocatable: amounts,
    conditions: [{ ...ready, lastHeartbeatTime: now, lastTransitionTime: now }],
    addresses: [
      { type: 'InternalIP', address: '127.0.0.1' },
      { type: 'Hostname', address: 'local' },
    ],
    nodeInfo: {
      architecture: arch,
      operatingSystem: 'linux',
      osImage: 'embedded',
      kernelVersion: release(),
      kubeletVersion: version.gitVersion,
      containerRuntimeVersion: 'windlass://1',
      kubeProxyVersion: '',
      bootID: '',
      machineID: '',
      systemUUID: '',
    },
  };
  store.create('nodes', { apiVersion: 'v1', kind: 'Node', metadata: { name: 'local', labels }, spec: {}, status });
}

function seedClass(store: ClusterStore, name: string, volumeBindingMode: string): void {
  store.create('storageclasses', {
    apiVersion: 'storage.k8s.io/v1',
    kind: 'StorageClass',
    metadata: { name, annotations: { [isDefault]: String(name === 'standard') } },
    provisioner: 'windlass.dev/local',
    reclaimPolicy: 'Delete',
    volumeBindingMode,
  });
}

/** What a fresh cluster has. Accounts come with the namespaces, from the controllers. */
export function seed(store: ClusterStore): void {
  for (const name of ['default', 'kube-system', 'kube-node-lease', 'kube-public']) {
    store.create('namespaces', {
      apiVersion: 'v1',
      kind: 'Namespace',
      metadata: { name, labels: { 'kubernetes.io/metadata.name': name } },
      spec: { finalizers: ['kubernetes'] },
      status: { phase: 'Active' },
    });
  }
  seedNode(store);
  seedClass(store, 'standard', 'WaitForFirstConsumer');
  seedClass(store, 'immediate', 'Immediate');
}
