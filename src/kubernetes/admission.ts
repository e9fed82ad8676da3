import type {
  V1Container,
  V1NodeSelectorRequirement,
  V1ObjectMeta,
  V1PersistentVolumeClaim,
  V1Pod,
  V1PodSpec,
} from '@kubernetes/client-node';
import type { Issue } from '../errors.ts';
import { canonicalJson } from '../names.ts';
import { parseQuantity } from '../quantity.ts';
import { keys, prefix } from './ownership.ts';
import { isReservedEnv, isReservedPath, platformKeys, reservedPort, reservedVolumes } from './reserved.ts';

type Report = (path: string, message: string) => void;

/**
 * What of an admitted Pod differs from what was asked for in the parts that Windlass owns. Everything else is the
 * operator's and the cluster's: webhooks may add sidecars, volumes, labels, variables, selectors (C55).
 */
export function comparePod(wanted: V1Pod, admitted: V1Pod): Issue[] {
  const { issues, report } = collector();
  compareMeta(wanted.metadata ?? {}, admitted.metadata ?? {}, [], report);
  const want = wanted.spec ?? { containers: [] };
  const have = admitted.spec ?? { containers: [] };
  compareFields(want, have, ['restartPolicy', 'os', 'automountServiceAccountToken', 'enableServiceLinks'], 'spec', report);
  for (const key of platformKeys)
    if (want.nodeSelector?.[key] !== have.nodeSelector?.[key]) report(`spec.nodeSelector.${key}`, 'was changed');
  const scheduled = admitted.status?.conditions?.some(({ type, status }) => type === 'PodScheduled' && status === 'True');
  if ((have.nodeName ?? '') !== (want.nodeName ?? '') && !scheduled)
    report('spec.nodeName', 'was set by something other than the scheduler');
  compareAffinity(want, have, report);
  compareOwnedVolumes(want, have, report);
  compareContainers(want, have, report);
  return issues;
}

/** The same for a claim: what binding and defaulting fill in is tolerated. */
export function compareClaim(wanted: V1PersistentVolumeClaim, admitted: V1PersistentVolumeClaim): Issue[] {
  const { issues, report } = collector();
  compareMeta(wanted.metadata ?? {}, admitted.metadata ?? {}, ['kubernetes.io/pvc-protection'], report);
  const want = wanted.spec ?? {};
  const have = admitted.spec ?? {};
  const modes = (list: readonly string[] = []): string => [...new Set(list)].sort().join(',');
  if (modes(want.accessModes) !== modes(have.accessModes)) report('spec.accessModes', 'was changed');
  const storage = [want, have].map((spec) => spec.resources?.requests?.storage);
  if (!sameQuantity(storage[0], storage[1]))
    report('spec.resources.requests.storage', `is ${storage[1] ?? 'missing'}, not ${storage[0]}`);
  if (want.storageClassName !== undefined && want.storageClassName !== have.storageClassName)
    report('spec.storageClassName', 'was changed');
  compareFields(
    want,
    have,
    ['volumeMode', 'selector', 'dataSource', 'dataSourceRef', 'volumeAttributesClassName'],
    'spec',
    report,
  );
  return issues;
}

function collector(): { readonly issues: Issue[]; readonly report: Report } {
  const issues: Issue[] = [];
  return { issues, report: (path, message) => issues.push({ path, message }) };
}

/** Marks that we change ourselves while an object lives. */
const changing: readonly string[] = [keys.retained, keys.recovered, keys.lifetime];

function compareMeta(want: V1ObjectMeta, have: V1ObjectMeta, finalizers: readonly string[], report: Report): void {
  compareFields(want, have, ['name', 'namespace'], 'metadata', report);
  if ((have.ownerReferences?.length ?? 0) > 0)
    report('metadata.ownerReferences', 'was added: it could delete the object without us');
  for (const finalizer of have.finalizers ?? [])
    if (!finalizers.includes(finalizer)) report('metadata.finalizers', `${finalizer} was added`);
  for (const kind of ['labels', 'annotations'] as const) {
    const ours = (key: string): boolean => key.startsWith(prefix) && !changing.includes(key);
    const owned = (key: string): boolean => ours(key) || (kind === 'labels' && key.startsWith('app.kubernetes.io/'));
    for (const [key, value] of Object.entries(want[kind] ?? {}))
      if (owned(key) && have[kind]?.[key] !== value) report(`metadata.${kind}.${key}`, 'was changed');
    for (const key of Object.keys(have[kind] ?? {}))
      if (ours(key) && want[kind]?.[key] === undefined) report(`metadata.${kind}.${key}`, 'was added');
  }
}

function compareFields<T extends object>(
  want: T,
  have: T,
  fields: readonly (keyof T & string)[],
  path: string,
  report: Report,
): void {
  for (const field of fields) if (!same(want[field], have[field])) report(`${path}.${field}`, 'was changed');
}

/** Equal up to the order of keys; an absent value equals undefined. */
function same(a: unknown, b: unknown): boolean {
  return canonicalJson(a ?? null) === canonicalJson(b ?? null);
}

function sameQuantity(a: string | undefined, b: string | undefined): boolean {
  if (a === undefined || b === undefined) return a === b;
  return parseQuantity(a) === parseQuantity(b);
}

function compareOwnedVolumes(want: V1PodSpec, have: V1PodSpec, report: Report): void {
  for (const name of reservedVolumes) {
    const [wanted] = (want.volumes ?? []).filter((volume) => volume.name === name);
    const found = (have.volumes ?? []).filter((volume) => volume.name === name);
    if (found.length > 1) report(`spec.volumes.${name}`, 'is there more than once');
    else if (wanted === undefined && found.length > 0) report(`spec.volumes.${name}`, 'was added');
    else if (wanted !== undefined && !sameVolume(wanted, found[0])) report(`spec.volumes.${name}`, 'was changed');
  }
}

/** `defaultMode` of a ConfigMap volume is the server's default. Sizes are compared by value. */
function sameVolume(want: object, have: object | undefined): boolean {
  const plain = (volume: object | undefined): unknown => {
    const copy = structuredClone(volume ?? {}) as { configMap?: { defaultMode?: number }; emptyDir?: { sizeLimit?: string } };
    if (copy.configMap) delete copy.configMap.defaultMode;
    if (copy.emptyDir?.sizeLimit) copy.emptyDir.sizeLimit = String(parseQuantity(copy.emptyDir.sizeLimit));
    return copy;
  };
  return same(plain(want), plain(have));
}

function compareContainers(want: V1PodSpec, have: V1PodSpec, report: Report): void {
  for (const kind of ['initContainers', 'containers'] as const) {
    for (const container of want[kind] ?? [])
      if (!have[kind]?.some((other) => other.name === container.name)) report(`spec.${kind}.${container.name}`, 'is missing');
  }
  for (const kind of ['initContainers', 'containers', 'ephemeralContainers'] as const) {
    for (const container of have[kind] ?? []) {
      const path = `spec.${kind}.${container.name}`;
      const asked = kind === 'ephemeralContainers' ? undefined : want[kind]?.find((other) => other.name === container.name);
      compareContainer(asked ?? { name: container.name }, container as V1Container, path, report);
    }
  }
}

/** A container that we did not ask for counts as one that has nothing of ours and may get nothing of ours. */
function compareContainer(want: V1Container, have: V1Container, path: string, report: Report): void {
  if ((have.envFrom?.length ?? 0) > 0) report(`${path}.envFrom`, 'was added: it could set any variable');
  const owned = ownsEntry(want);
  if (owned) compareFields(want, have, ['command', 'args', 'workingDir'], path, report);
  const env = (container: V1Container) => (container.env ?? []).filter(({ name }) => isReservedEnv(name));
  if (!same(env(want), env(have))) report(`${path}.env`, 'has other values of HOME or WINDLASS_*');
  const ports = (container: V1Container) =>
    (container.ports ?? [])
      .filter((port) => port.containerPort === reservedPort.number || port.name === reservedPort.name)
      .map(({ name, containerPort }) => ({ name, containerPort }));
  if (!same(ports(want), ports(have))) report(`${path}.ports`, `does not have port ${reservedPort.number} as asked for`);
  const mounts = (container: V1Container) =>
    (container.volumeMounts ?? [])
      .filter((mount) => reservedVolumes.includes(mount.name) || isReservedPath(mount.mountPath))
      // Only the server's spelling of the defaults differs.
      .map((mount) => ({ ...mount, readOnly: mount.readOnly === true }))
      .sort((a, b) => (a.mountPath < b.mountPath ? -1 : 1));
  if (!same(mounts(want), mounts(have))) report(`${path}.volumeMounts`, 'has other mounts of our volumes or paths');
  const devices = (have.volumeDevices ?? []).filter(
    (device) => reservedVolumes.includes(device.name) || isReservedPath(device.devicePath),
  );
  if (devices.length > 0) report(`${path}.volumeDevices`, 'uses our volumes or paths');
}

/** The main container with our entry script, and the copier of the runtime: known by what they mount. */
function ownsEntry(container: V1Container): boolean {
  return (container.volumeMounts ?? []).some((mount) => reservedVolumes.includes(mount.name));
}

/** What we asked for must remain; what was added on the platform's keys must let our platform through. */
function compareAffinity(want: V1PodSpec, have: V1PodSpec, report: Report): void {
  const path = 'spec.affinity.nodeAffinity';
  const [wanted, found] = [want, have].map((spec) => spec.affinity?.nodeAffinity?.requiredDuringSchedulingIgnoredDuringExecution);
  const terms = found?.nodeSelectorTerms ?? [];
  if (wanted !== undefined) {
    for (const term of wanted.nodeSelectorTerms) {
      const kept = terms.some((other) =>
        (term.matchExpressions ?? []).every((rule) => other.matchExpressions?.some((have_) => same(rule, have_))),
      );
      if (!kept) report(path, 'a term that was asked for is gone');
    }
  }
  for (const term of terms) {
    for (const rule of term.matchFields ?? []) if (platformKeys.includes(rule.key)) report(path, `matches the field ${rule.key}`);
    for (const rule of term.matchExpressions ?? [])
      if (platformKeys.includes(rule.key) && !admits(rule, want.nodeSelector?.[rule.key] ?? ''))
        report(path, `keeps the Pod off ${rule.key}`);
  }
}

function admits(rule: V1NodeSelectorRequirement, value: string): boolean {
  if (rule.operator === 'In') return rule.values?.includes(value) === true;
  if (rule.operator === 'NotIn') return rule.values?.includes(value) !== true;
  return rule.operator === 'Exists';
}
