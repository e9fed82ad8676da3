import { isDeepStrictEqual } from 'node:util';
import type { KubeObject } from '../types.ts';
import { duplicate, forbiddenField, invalidValue, missing, required, unsupported } from './field-errors.ts';
import { dnsLabel, dnsLabelText } from './names.ts';
import { parseQuantity } from './quantity.ts';
import type { FieldError } from './status.ts';

// biome-ignore lint/suspicious/noExplicitAny: JSON from a client; every access below copes with any shape
type Part = any;

const list = (value: Part): Part[] => (Array.isArray(value) ? value : []);

const quote = (value: unknown): string => (typeof value === 'string' ? value : JSON.stringify(value));

/** Every name once; asked last, as the server does. */
function uniqueErrors(field: string, name: unknown, seen: Set<unknown>): FieldError[] {
  if (seen.has(name)) return [duplicate(field, name)];
  seen.add(name);
  return [];
}

function nameErrors(field: string, name: unknown, seen: Set<unknown>): FieldError[] {
  if (typeof name !== 'string' || name === '') return [required(field)];
  if (seen.has(name)) return [];
  if (name.length > 63) return [invalidValue(field, name, 'must be no more than 63 characters')];
  return dnsLabel.test(name) ? [] : [invalidValue(field, name, dnsLabelText)];
}

function validatePorts(field: string, ports: Part[]): FieldError[] {
  return ports.flatMap((port, index) =>
    Number.isInteger(port?.containerPort) && port.containerPort >= 1 && port.containerPort <= 65_535
      ? []
      : [
          invalidValue(
            `${field}.ports[${index}].containerPort`,
            port?.containerPort ?? 0,
            'must be between 1 and 65535, inclusive',
          ),
        ],
  );
}

function validateEnv(field: string, env: Part[]): FieldError[] {
  return env.flatMap((entry, index) => {
    const at = `${field}.env[${index}]`;
    if (typeof entry?.name !== 'string' || entry.name === '') return [required(`${at}.name`)];
    if (entry.name.includes('=')) {
      return [
        invalidValue(
          `${at}.name`,
          entry.name,
          "a valid environment variable name must consist only of printable ASCII characters other than '='",
        ),
      ];
    }
    if (entry.value && entry.valueFrom) {
      return [invalidValue(`${at}.valueFrom`, '', 'may not be specified when `value` is not empty')];
    }
    return [];
  });
}

function validateMounts(field: string, mounts: Part[], volumes: ReadonlySet<string>): FieldError[] {
  const paths = new Set<string>();
  return mounts.flatMap((mount, index) => {
    const at = `${field}.volumeMounts[${index}]`;
    const errors: FieldError[] = [];
    if (!mount?.name) errors.push(required(`${at}.name`));
    else if (!volumes.has(mount.name)) errors.push(missing(`${at}.name`, mount.name));
    if (!mount?.mountPath) errors.push(required(`${at}.mountPath`));
    else if (paths.has(mount.mountPath)) errors.push(invalidValue(`${at}.mountPath`, mount.mountPath, 'must be unique'));
    paths.add(mount?.mountPath);
    if (
      String(mount?.subPath ?? '')
        .split('/')
        .includes('..')
    ) {
      errors.push(invalidValue(`${at}.subPath`, mount.subPath, "must not contain '..'"));
    }
    return errors;
  });
}

function validateAmounts(field: string, resources: Part): FieldError[] {
  return Object.entries(resources?.requests ?? {}).flatMap(([name, request]) => {
    const limit = resources?.limits?.[name];
    const over = limit !== undefined && parseQuantity(request)! > parseQuantity(limit)!;
    return over
      ? [
          invalidValue(
            `${field}.resources.requests`,
            quote(request),
            `must be less than or equal to ${name} limit of ${quote(limit)}`,
          ),
        ]
      : [];
  });
}

const pullPolicies = ['Always', 'IfNotPresent', 'Never'];

function validateContainers(field: string, containers: Part[], volumes: ReadonlySet<string>, names: Set<unknown>): FieldError[] {
  return containers.flatMap((container, index) => {
    const at = `${field}[${index}]`;
    const errors = nameErrors(`${at}.name`, container?.name, names);
    if (!container?.image) errors.push(required(`${at}.image`));
    errors.push(...validatePorts(at, list(container?.ports)));
    errors.push(...validateMounts(at, list(container?.volumeMounts), volumes), ...validateEnv(at, list(container?.env)));
    if (!pullPolicies.includes(container?.imagePullPolicy)) {
      errors.push(unsupported(`${at}.imagePullPolicy`, container?.imagePullPolicy, pullPolicies));
    }
    errors.push(...validateAmounts(at, container?.resources), ...uniqueErrors(`${at}.name`, container?.name, names));
    return errors;
  });
}

function validateVolumes(volumes: Part[], names: Set<unknown>): FieldError[] {
  return volumes.flatMap((volume, index) => {
    const at = `spec.volumes[${index}]`;
    const errors = [...nameErrors(`${at}.name`, volume?.name, names), ...uniqueErrors(`${at}.name`, volume?.name, names)];
    const sources = Object.keys(volume ?? {}).filter((key) => key !== 'name' && volume[key] !== null);
    for (const extra of sources.slice(1))
      errors.push(forbiddenField(`${at}.${extra}`, 'may not specify more than 1 volume type'));
    if (volume?.persistentVolumeClaim && !volume.persistentVolumeClaim.claimName) {
      errors.push(required(`${at}.persistentVolumeClaim.claimName`));
    }
    if (volume?.hostPath && !volume.hostPath.path) errors.push(required(`${at}.hostPath.path`));
    if (volume?.secret && !volume.secret.secretName) errors.push(required(`${at}.secret.secretName`));
    return errors;
  });
}

const restartPolicies = ['Always', 'OnFailure', 'Never'];

/** The rules of a Pod that its users meet; the sentences are the server's. */
export function validatePod(pod: KubeObject): FieldError[] {
  const spec: Part = pod.spec ?? {};
  const volumes = new Set<unknown>();
  const names = new Set<unknown>();
  const errors = validateVolumes(list(spec.volumes), volumes);
  const containers = list(spec.containers);
  if (containers.length === 0) errors.push(required('spec.containers'));
  const known = volumes as ReadonlySet<string>;
  errors.push(...validateContainers('spec.initContainers', list(spec.initContainers), known, names));
  errors.push(...validateContainers('spec.containers', containers, known, names));
  if (spec.restartPolicy !== undefined && !restartPolicies.includes(spec.restartPolicy)) {
    errors.push(unsupported('spec.restartPolicy', spec.restartPolicy, restartPolicies));
  }
  for (const field of ['activeDeadlineSeconds', 'terminationGracePeriodSeconds']) {
    const least = field === 'activeDeadlineSeconds' ? 1 : 0;
    if (spec[field] !== undefined && spec[field] !== null && !(Number.isInteger(spec[field]) && spec[field] >= least)) {
      errors.push(invalidValue(`spec.${field}`, spec[field], `must be greater than or equal to ${least}`));
    }
  }
  return errors;
}

/** Quantities are read at decoding on the real server: a bad one is 400 there, not 422. */
export function hasBadQuantity(pod: KubeObject): boolean {
  const containers = [...list(pod.spec?.initContainers), ...list(pod.spec?.containers)];
  return containers.some(({ resources }) =>
    [...Object.values(resources?.requests ?? {}), ...Object.values(resources?.limits ?? {})].some(
      (amount) => parseQuantity(amount) === undefined,
    ),
  );
}

const fixedText =
  'pod updates may not change fields other than `spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,`spec.tolerations` (only additions to existing tolerations),`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)';

/** The spec with everything that may change set to what it was. */
function withAllowedChanges(spec: Part, old: Part): Part {
  const result = structuredClone(spec);
  for (const field of ['containers', 'initContainers']) {
    for (const [index, container] of list(result[field]).entries()) container.image = list(old[field])[index]?.image;
  }
  if (old.activeDeadlineSeconds === undefined || spec.activeDeadlineSeconds <= old.activeDeadlineSeconds) {
    result.activeDeadlineSeconds = old.activeDeadlineSeconds;
    if (old.activeDeadlineSeconds === undefined) delete result.activeDeadlineSeconds;
  }
  const kept = list(old.tolerations).every((toleration) =>
    list(spec.tolerations).some((other) => isDeepStrictEqual(other, toleration)),
  );
  if (kept && old.tolerations) result.tolerations = old.tolerations;
  return result;
}

/** What of a created Pod may still change: images, the deadline (shorter), more tolerations. */
export function validatePodUpdate(pod: KubeObject, current: KubeObject): FieldError[] {
  const names = (of: KubeObject, field: string) => list(of.spec?.[field]).map((container) => container?.name);
  if (!isDeepStrictEqual(names(pod, 'containers'), names(current, 'containers'))) {
    return [forbiddenField('spec.containers', 'pod updates may not add or remove containers')];
  }
  const [deadline, before] = [pod.spec.activeDeadlineSeconds, current.spec.activeDeadlineSeconds];
  if (before !== undefined && deadline > before) {
    return [invalidValue('spec.activeDeadlineSeconds', deadline, 'must be less than or equal to previous value')];
  }
  const same = isDeepStrictEqual(withAllowedChanges(pod.spec, current.spec), structuredClone(current.spec));
  return same ? [] : [forbiddenField('spec', fixedText)];
}
