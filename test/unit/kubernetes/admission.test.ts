import type { V1Container, V1PersistentVolumeClaim, V1Pod, V1PodSpec } from '@kubernetes/client-node';
import { describe, expect, it } from 'vitest';
import { profileSchema } from '../../../src/config/schema.ts';
import { compareClaim, comparePod } from '../../../src/kubernetes/admission.ts';
import { composeClaim, composePod } from '../../../src/kubernetes/compose.ts';
import { composeInput } from './compose-input.ts';

const wanted = () => composePod(composeInput());
const specOf = (pod: V1Pod): V1PodSpec => pod.spec as V1PodSpec;
const mainOf = (pod: V1Pod) => {
  const container = specOf(pod).containers.find(({ name }) => name === 'agent');
  if (!container) throw new Error('no main container');
  return container;
};

const put = <T extends object>(target: T | undefined, change: Partial<T>): void => void Object.assign(target ?? {}, change);

/** What a real server fills in. */
function admitted(): V1Pod {
  const pod = wanted();
  const spec = specOf(pod);
  pod.metadata = { ...pod.metadata, uid: 'u1', resourceVersion: '5', managedFields: [] };
  spec.schedulerName = 'default-scheduler';
  spec.dnsPolicy = 'ClusterFirst';
  spec.serviceAccountName = 'default';
  spec.tolerations = [...(spec.tolerations ?? []), { key: 'node.kubernetes.io/not-ready', operator: 'Exists' }];
  for (const volume of spec.volumes ?? []) if (volume.configMap) volume.configMap.defaultMode = 420;
  for (const volume of spec.volumes ?? []) if (volume.emptyDir?.sizeLimit === '512Mi') volume.emptyDir.sizeLimit = '524288Ki';
  for (const container of spec.containers) {
    container.imagePullPolicy = 'IfNotPresent';
    container.terminationMessagePath = '/dev/termination-log';
  }
  return pod;
}

const tolerated: Record<string, (pod: V1Pod) => void> = {
  'what a server fills in': () => {},
  'an injected sidecar': (pod) =>
    void specOf(pod).containers.push({ name: 'istio-proxy', image: 'x', env: [{ name: 'A', value: '1' }] }),
  'an injected init container': (pod) => put(specOf(pod), { initContainers: [{ name: 'istio-init', image: 'x' }] }),
  'other labels and annotations': (pod) => {
    pod.metadata = {
      ...pod.metadata,
      labels: { ...pod.metadata?.labels, team: 'red', extra: '1' },
      annotations: { ...pod.metadata?.annotations, x: 'y' },
    };
  },
  'other variables and volumes': (pod) => {
    mainOf(pod).env?.push({ name: 'PROXY', value: 'on' });
    specOf(pod).volumes?.push({ name: 'tokens', emptyDir: {} });
    mainOf(pod).volumeMounts?.push({ name: 'tokens', mountPath: '/var/tokens' });
  },
  'a mirrored image': (pod) => put(mainOf(pod), { image: 'mirror/node:local' }),
  'a node given by the scheduler': (pod) => {
    specOf(pod).nodeName = 'n1';
    pod.status = { conditions: [{ type: 'PodScheduled', status: 'True' }] };
  },
  'an affinity that lets our platform through': (pod) =>
    void setAffinity(pod, { key: 'kubernetes.io/os', operator: 'In', values: ['linux'] }),
};

const refused: Record<string, [(pod: V1Pod) => void, string]> = {
  'another name': [(pod) => put(pod.metadata, { name: 'other' }), 'metadata.name'],
  'an owner': [
    (pod) => put(pod.metadata, { ownerReferences: [{ apiVersion: 'v1', kind: 'X', name: 'x', uid: 'u' }] }),
    'metadata.ownerReferences',
  ],
  'a finalizer': [(pod) => put(pod.metadata, { finalizers: ['x/y'] }), 'metadata.finalizers'],
  'a changed owned label': [(pod) => void setLabel(pod, 'windlass.dev/owner', 'bob'), 'metadata.labels.windlass.dev/owner'],
  'an added owned label': [(pod) => void setLabel(pod, 'windlass.dev/extra', '1'), 'metadata.labels.windlass.dev/extra'],
  'a changed standard label': [
    (pod) => void setLabel(pod, 'app.kubernetes.io/managed-by', 'helm'),
    'metadata.labels.app.kubernetes.io/managed-by',
  ],
  'another nonce': [
    (pod) => put(pod.metadata, { annotations: { ...pod.metadata?.annotations, 'windlass.dev/create-nonce': 'x' } }),
    'metadata.annotations.windlass.dev/create-nonce',
  ],
  'another restart policy': [(pod) => put(specOf(pod), { restartPolicy: 'Never' }), 'spec.restartPolicy'],
  'another system': [(pod) => put(specOf(pod), { os: { name: 'windows' } }), 'spec.os'],
  'a mounted token': [(pod) => put(specOf(pod), { automountServiceAccountToken: true }), 'spec.automountServiceAccountToken'],
  'another architecture': [
    (pod) => put(specOf(pod), { nodeSelector: { ...specOf(pod).nodeSelector, 'kubernetes.io/arch': 'arm64' } }),
    'spec.nodeSelector.kubernetes.io/arch',
  ],
  'a node nobody asked for': [(pod) => put(specOf(pod), { nodeName: 'n1' }), 'spec.nodeName'],
  'another command': [(pod) => put(mainOf(pod), { command: ['sh'] }), 'spec.containers.agent.command'],
  'added arguments': [(pod) => put(mainOf(pod), { args: ['x'] }), 'spec.containers.agent.args'],
  'another folder': [(pod) => put(mainOf(pod), { workingDir: '/' }), 'spec.containers.agent.workingDir'],
  envFrom: [(pod) => put(mainOf(pod), { envFrom: [{ secretRef: { name: 's' } }] }), 'spec.containers.agent.envFrom'],
  'a changed reserved variable': [
    (pod) => void mainOf(pod).env?.push({ name: 'HOME', value: '/root' }),
    'spec.containers.agent.env',
  ],
  'a reserved variable in a sidecar': [
    (pod) => void specOf(pod).containers.push({ name: 'spy', env: [{ name: 'WINDLASS_X', value: '1' }] }),
    'spec.containers.spy.env',
  ],
  'no agent port': [(pod) => put(mainOf(pod), { ports: [] }), 'spec.containers.agent.ports'],
  'the agent port elsewhere': [
    (pod) => void specOf(pod).containers.push({ name: 'spy', ports: [{ containerPort: 8765 }] }),
    'spec.containers.spy.ports',
  ],
  'another volume behind our name': [
    (pod) => {
      const run = specOf(pod).volumes?.find(({ name }) => name === 'windlass-run');
      if (run?.emptyDir) delete run.emptyDir.medium;
    },
    'spec.volumes.windlass-run',
  ],
  'our volume twice': [
    (pod) => void specOf(pod).volumes?.push({ name: 'windlass-opt', emptyDir: {} }),
    'spec.volumes.windlass-opt',
  ],
  'our volume in a sidecar': [
    (pod) => void specOf(pod).containers.push({ name: 'spy', volumeMounts: [{ name: 'windlass-run', mountPath: '/x' }] }),
    'spec.containers.spy.volumeMounts',
  ],
  'something mounted inside our folder': [
    (pod) => void mainOf(pod).volumeMounts?.push({ name: 'cache', mountPath: '/workspace/x' }),
    'spec.containers.agent.volumeMounts',
  ],
  'our volume as a device': [
    (pod) => put(mainOf(pod), { volumeDevices: [{ name: 'windlass-workspace', devicePath: '/dev/x' }] }),
    'spec.containers.agent.volumeDevices',
  ],
  'a removed container': [
    (pod) => put(specOf(pod), { containers: specOf(pod).containers.filter(({ name }) => name !== 'proxy') }),
    'spec.containers.proxy',
  ],
  'an affinity that keeps our platform out': [
    (pod) => void setAffinity(pod, { key: 'kubernetes.io/arch', operator: 'NotIn', values: ['amd64'] }),
    'spec.affinity.nodeAffinity',
  ],
  'another namespace': [(pod) => put(pod.metadata, { namespace: 'other' }), 'metadata.namespace'],
  'injected service links': [(pod) => put(specOf(pod), { enableServiceLinks: true }), 'spec.enableServiceLinks'],
  'another operating system': [
    (pod) => put(specOf(pod), { nodeSelector: { ...specOf(pod).nodeSelector, 'kubernetes.io/os': 'windows' } }),
    'spec.nodeSelector.kubernetes.io/os',
  ],
  'a removed owned label': [
    (pod) => {
      delete pod.metadata?.labels?.['windlass.dev/instance'];
    },
    'metadata.labels.windlass.dev/instance',
  ],
  'an added annotation of ours': [
    (pod) => put(pod.metadata, { annotations: { ...pod.metadata?.annotations, 'windlass.dev/extra': 'x' } }),
    'metadata.annotations.windlass.dev/extra',
  ],
  'our port by name in a sidecar': [
    (pod) => void specOf(pod).containers.push({ name: 'spy', ports: [{ containerPort: 1, name: 'windlass-agent' }] }),
    'spec.containers.spy.ports',
  ],
  'envFrom in a sidecar': [
    (pod) => void specOf(pod).containers.push({ name: 'spy', envFrom: [{ secretRef: { name: 's' } }] }),
    'spec.containers.spy.envFrom',
  ],
  'envFrom in an init container': [
    (pod) => spyFirst(pod, { envFrom: [{ secretRef: { name: 's' } }] }),
    'spec.initContainers.spy.envFrom',
  ],
  'a reserved variable in an init container': [
    (pod) => spyFirst(pod, { env: [{ name: 'HOME', value: '/root' }] }),
    'spec.initContainers.spy.env',
  ],
  'the agent port in an init container': [
    (pod) => spyFirst(pod, { ports: [{ containerPort: 8765 }] }),
    'spec.initContainers.spy.ports',
  ],
  'our volume in an init container': [
    (pod) => spyFirst(pod, { volumeMounts: [{ name: 'windlass-run', mountPath: '/x' }] }),
    'spec.initContainers.spy.volumeMounts',
  ],
  'our path as a device of an init container': [
    (pod) => spyFirst(pod, { volumeDevices: [{ name: 'x', devicePath: '/opt/windlass' }] }),
    'spec.initContainers.spy.volumeDevices',
  ],
  'an ephemeral container that mounts ours': [
    (pod) =>
      put(specOf(pod), {
        ephemeralContainers: [{ name: 'spy', volumeMounts: [{ name: 'windlass-run', mountPath: '/x' }] }],
      }),
    'spec.ephemeralContainers.spy.volumeMounts',
  ],
  'our mount made read-only': [
    (pod) => {
      for (const mount of mainOf(pod).volumeMounts ?? []) if (mount.name === 'windlass-workspace') mount.readOnly = true;
    },
    'spec.containers.agent.volumeMounts',
  ],
  'a removed workspace volume': [
    (pod) => put(specOf(pod), { volumes: specOf(pod).volumes?.filter(({ name }) => name !== 'windlass-workspace') ?? [] }),
    'spec.volumes.windlass-workspace',
  ],
  'another claim behind the workspace': [
    (pod) => {
      for (const volume of specOf(pod).volumes ?? [])
        if (volume.name === 'windlass-workspace') volume.persistentVolumeClaim = { claimName: 'other' };
    },
    'spec.volumes.windlass-workspace',
  ],
  'an affinity on a field of the platform': [
    (pod) =>
      put(specOf(pod), {
        affinity: {
          nodeAffinity: {
            requiredDuringSchedulingIgnoredDuringExecution: {
              nodeSelectorTerms: [{ matchFields: [{ key: 'kubernetes.io/os', operator: 'In', values: ['linux'] }] }],
            },
          },
        },
      }),
    'spec.affinity.nodeAffinity',
  ],
  'an affinity by DoesNotExist': [
    (pod) => void setAffinity(pod, { key: 'kubernetes.io/os', operator: 'DoesNotExist', values: [] }),
    'spec.affinity.nodeAffinity',
  ],
  'an affinity by Gt': [
    (pod) => void setAffinity(pod, { key: 'kubernetes.io/arch', operator: 'Gt', values: ['1'] }),
    'spec.affinity.nodeAffinity',
  ],
};

function spyFirst(pod: V1Pod, container: Partial<V1Container>): void {
  put(specOf(pod), { initContainers: [{ name: 'spy', ...container }] });
}
function setLabel(pod: V1Pod, key: string, value: string): void {
  pod.metadata = { ...pod.metadata, labels: { ...pod.metadata?.labels, [key]: value } };
}
function setAffinity(pod: V1Pod, rule: { key: string; operator: string; values: string[] }): void {
  specOf(pod).affinity = {
    nodeAffinity: { requiredDuringSchedulingIgnoredDuringExecution: { nodeSelectorTerms: [{ matchExpressions: [rule] }] } },
  };
}

describe('comparePod', () => {
  it.each(Object.entries(tolerated))('tolerates %s', (_name, change) => {
    const pod = admitted();
    change(pod);
    expect(comparePod(wanted(), pod)).toEqual([]);
  });

  it.each(Object.entries(refused))('finds %s', (_name, [change, path]) => {
    const pod = admitted();
    change(pod);
    expect(comparePod(wanted(), pod).map((issue) => issue.path)).toEqual([path]);
  });

  it('compares Pods without an agent and Pods with init containers by the same rules', () => {
    for (const input of [composeInput({ agent: undefined }), composeInput({ prepares: false })]) {
      const pod = composePod(input);
      expect(comparePod(pod, structuredClone(pod))).toEqual([]);
    }
  });
});

describe('compareClaim', () => {
  const claim = () => composeClaim(composeInput());
  const change = (spec: Partial<NonNullable<V1PersistentVolumeClaim['spec']>>, meta: object = {}) => {
    const made = claim();
    return { ...made, metadata: { ...made.metadata, ...meta }, spec: { ...made.spec, ...spec } };
  };
  const marked = (kind: 'labels' | 'annotations', key: string, value: string) => ({
    [kind]: { ...claim().metadata?.[kind], [key]: value },
  });
  const paths = (other: V1PersistentVolumeClaim) => compareClaim(claim(), other).map(({ path }) => path);

  it('tolerates binding, the default class, equal sizes and the protection finalizer', () => {
    const bound = change(
      { volumeName: 'pv1', storageClassName: 'standard', resources: { requests: { storage: '10240Mi' } } },
      { finalizers: ['kubernetes.io/pvc-protection'], uid: 'u' },
    );
    expect(paths(bound)).toEqual([]);
  });

  it.each<[string, V1PersistentVolumeClaim, string]>([
    ['another access mode', change({ accessModes: ['ReadWriteOnce', 'ReadWriteMany'] }), 'spec.accessModes'],
    ['another size', change({ resources: { requests: { storage: '5Gi' } } }), 'spec.resources.requests.storage'],
    ['no size', change({ resources: {} }), 'spec.resources.requests.storage'],
    ['block mode', change({ volumeMode: 'Block' }), 'spec.volumeMode'],
    ['a selector', change({ selector: { matchLabels: { a: 'b' } } }), 'spec.selector'],
    ['a source', change({ dataSource: { kind: 'PersistentVolumeClaim', name: 'other' } }), 'spec.dataSource'],
    ['a source reference', change({ dataSourceRef: { kind: 'VolumeSnapshot', name: 's' } }), 'spec.dataSourceRef'],
    ['a class of attributes', change({ volumeAttributesClassName: 'gold' }), 'spec.volumeAttributesClassName'],
    ['another name', change({}, { name: 'other' }), 'metadata.name'],
    ['another namespace', change({}, { namespace: 'other' }), 'metadata.namespace'],
    ['a foreign finalizer', change({}, { finalizers: ['x/y'] }), 'metadata.finalizers'],
    [
      'an owner',
      change({}, { ownerReferences: [{ apiVersion: 'v1', kind: 'Pod', name: 'p', uid: 'u' }] }),
      'metadata.ownerReferences',
    ],
    ['a changed owner label', change({}, marked('labels', 'windlass.dev/owner', 'bob')), 'metadata.labels.windlass.dev/owner'],
    ['an added label of ours', change({}, marked('labels', 'windlass.dev/extra', '1')), 'metadata.labels.windlass.dev/extra'],
    [
      'a changed standard label',
      change({}, marked('labels', 'app.kubernetes.io/managed-by', 'helm')),
      'metadata.labels.app.kubernetes.io/managed-by',
    ],
    [
      'another nonce',
      change({}, marked('annotations', 'windlass.dev/create-nonce', 'x')),
      'metadata.annotations.windlass.dev/create-nonce',
    ],
  ])('finds %s', (_name, other, path) => {
    expect(paths(other)).toEqual([path]);
  });

  it('finds another class only where one was asked for', () => {
    const profile = profileSchema.parse({ workspace: { mode: 'managed_pvc', size: '10Gi', storageClass: 'fast' } });
    const asked = composeClaim(composeInput({ profile }));
    const other = { ...asked, spec: { ...asked.spec, storageClassName: 'slow' } };
    expect(compareClaim(asked, other).map(({ path }) => path)).toEqual(['spec.storageClassName']);
  });
});
