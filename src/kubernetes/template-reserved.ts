import type { V1Container, V1NodeSelectorTerm, V1PodSpec, V1PodTemplate } from '@kubernetes/client-node';
import type { Issue } from '../errors.ts';
import {
  isOwnKey,
  isReservedEnv,
  isReservedLabel,
  isReservedPath,
  platformKeys,
  reservedPort,
  reservedVolumes,
} from './reserved.ts';

export interface TemplateRules {
  /** Name of the container that becomes the workspace; default `agent`. */
  readonly mainContainer?: string;
  /** False where the image's own entry point stays (delivery none): command, args and workingDir are then the template's. */
  readonly ownsEntry?: boolean;
}

const taken = 'is reserved: Windlass sets it';
const metadataFields = [
  'name',
  'generateName',
  'namespace',
  'uid',
  'resourceVersion',
  'generation',
  'creationTimestamp',
  'deletionTimestamp',
  'deletionGracePeriodSeconds',
  'selfLink',
  'ownerReferences',
  'finalizers',
  'managedFields',
] as const;

type Report = (path: string, message?: string) => void;

/** Every use of a field, name, path or port that Windlass owns, with its exact path below `path`. */
export function findReserved(template: V1PodTemplate, rules: TemplateRules, path: string): Issue[] {
  const issues: Issue[] = [];
  const report: Report = (at, message = taken) => issues.push({ path: at, message });
  const { metadata, spec } = template.template ?? {};
  for (const field of metadataFields) if (metadata?.[field] !== undefined) report(`${path}.template.metadata.${field}`);
  for (const key of Object.keys(metadata?.labels ?? {}))
    if (isReservedLabel(key)) report(`${path}.template.metadata.labels.${key}`);
  for (const key of Object.keys(metadata?.annotations ?? {}))
    if (isOwnKey(key)) report(`${path}.template.metadata.annotations.${key}`);
  if (!spec) report(`${path}.template.spec`, 'is missing');
  else checkSpec(spec, rules, `${path}.template.spec`, report);
  return issues;
}

function checkSpec(spec: V1PodSpec, rules: TemplateRules, path: string, report: Report): void {
  for (const field of ['restartPolicy', 'nodeName', 'os', 'ephemeralContainers'] as const)
    if (spec[field] !== undefined) report(`${path}.${field}`);
  if (spec.enableServiceLinks === true) report(`${path}.enableServiceLinks`);
  if (spec.terminationGracePeriodSeconds === 0)
    report(`${path}.terminationGracePeriodSeconds`, 'must not be 0: the Pod would be reported gone while it still runs');
  for (const key of platformKeys) if (spec.nodeSelector?.[key] !== undefined) report(`${path}.nodeSelector.${key}`);
  checkAffinity(spec, path, report);
  spec.volumes?.forEach((volume, index) => {
    if (reservedVolumes.includes(volume.name)) report(`${path}.volumes[${index}].name`);
  });
  checkNames(spec, rules, path, report);
  for (const kind of ['initContainers', 'containers'] as const)
    spec[kind]?.forEach((container, index) => {
      const isMain = kind === 'containers' && container.name === (rules.mainContainer ?? 'agent');
      checkContainer(container, isMain && rules.ownsEntry !== false, `${path}.${kind}[${index}]`, report);
    });
}

function checkNames(spec: V1PodSpec, rules: TemplateRules, path: string, report: Report): void {
  const main = rules.mainContainer ?? 'agent';
  const count = (spec.containers ?? []).filter((container) => container.name === main).length;
  if (count !== 1)
    report(`${path}.containers`, `must have exactly one container named "${main}" (mainContainer), found ${count}`);
  const seen = new Set<string>();
  for (const kind of ['initContainers', 'containers'] as const)
    spec[kind]?.forEach(({ name }, index) => {
      if (typeof name !== 'string') report(`${path}.${kind}[${index}].name`, 'is missing');
      else if (name.startsWith('windlass-')) report(`${path}.${kind}[${index}].name`);
      else if (seen.has(name)) report(`${path}.${kind}[${index}].name`, 'is used twice');
      seen.add(name);
    });
}

function checkContainer(container: V1Container, ownsEntry: boolean, path: string, report: Report): void {
  if (!container.image) report(`${path}.image`, 'is missing');
  if (container.envFrom !== undefined) report(`${path}.envFrom`, 'is not allowed: it could set any variable, name them in env');
  container.env?.forEach(({ name }, index) => {
    if (isReservedEnv(name ?? '')) report(`${path}.env[${index}].name`);
  });
  container.ports?.forEach((port, index) => {
    if (port.containerPort === reservedPort.number) report(`${path}.ports[${index}].containerPort`);
    if (port.name === reservedPort.name) report(`${path}.ports[${index}].name`);
  });
  container.volumeMounts?.forEach((mount, index) => {
    if (reservedVolumes.includes(mount.name)) report(`${path}.volumeMounts[${index}].name`);
    if (isReservedPath(mount.mountPath ?? '')) report(`${path}.volumeMounts[${index}].mountPath`);
  });
  container.volumeDevices?.forEach((device, index) => {
    if (reservedVolumes.includes(device.name)) report(`${path}.volumeDevices[${index}].name`);
    if (isReservedPath(device.devicePath ?? '')) report(`${path}.volumeDevices[${index}].devicePath`);
  });
  if (!ownsEntry) return;
  const owned = [
    'command',
    'args',
    'workingDir',
    'startupProbe',
    'terminationMessagePolicy',
    'restartPolicy',
    'restartPolicyRules',
  ] as const;
  for (const field of owned) if (container[field] !== undefined) report(`${path}.${field}`);
}

/** `platform` decides operating system and architecture; an affinity on the same keys could contradict it. */
function checkAffinity(spec: V1PodSpec, path: string, report: Report): void {
  const node = spec.affinity?.nodeAffinity;
  const at = `${path}.affinity.nodeAffinity`;
  node?.requiredDuringSchedulingIgnoredDuringExecution?.nodeSelectorTerms?.forEach((term, index) => {
    checkTerm(term, `${at}.requiredDuringSchedulingIgnoredDuringExecution.nodeSelectorTerms[${index}]`, report);
  });
  node?.preferredDuringSchedulingIgnoredDuringExecution?.forEach((entry, index) => {
    checkTerm(entry.preference ?? {}, `${at}.preferredDuringSchedulingIgnoredDuringExecution[${index}].preference`, report);
  });
}

function checkTerm(term: V1NodeSelectorTerm, path: string, report: Report): void {
  for (const list of ['matchExpressions', 'matchFields'] as const)
    term[list]?.forEach(({ key }, index) => {
      if (platformKeys.includes(key)) report(`${path}.${list}[${index}].key`);
    });
}
