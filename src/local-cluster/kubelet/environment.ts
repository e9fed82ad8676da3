import type { V1Container, V1EnvFromSource, V1EnvVar } from '@kubernetes/client-node';
import type { KubeObject, Store } from '../types.ts';
import { containerOf, fieldValue, resourceValue } from './downward.ts';
import type { Pod } from './pod-types.ts';
import { serviceEnvironment } from './service-environment.ts';

/** The container cannot be made as it is configured: CreateContainerConfigError, retried. */
export class ConfigError extends Error {}

/** Kubernetes' own expansion of $(NAME): known names are replaced, unknown ones stay as they are, $$ stands for $. */
export function expand(text: string, values: Readonly<Record<string, string>>): string {
  return text.replace(/\$(\$|\(([^()]*)\))/g, (whole, escaped: string, name: string | undefined) => {
    if (escaped === '$') return '$';
    return name !== undefined && Object.hasOwn(values, name) ? (values[name] as string) : whole;
  });
}

/** A key that may become an environment variable; others are left out. */
function isEnvName(name: string): boolean {
  return /^[\x20-\x3c\x3e-\x7e]+$/.test(name);
}

export interface EnvironmentInput {
  readonly store: Store;
  readonly pod: Pod;
  readonly container: V1Container;
  readonly podIP: string;
}

/** All of a container's variables in Kubernetes' order: services, envFrom, env, where later ones win. Throws ConfigError. */
export function resolveEnvironment(input: EnvironmentInput): Record<string, string> {
  const { store, pod, container } = input;
  const values: Record<string, string> =
    pod.spec.enableServiceLinks === false ? {} : serviceEnvironment(store, pod.metadata.namespace);
  for (const source of container.envFrom ?? []) Object.assign(values, fromSource(input, source));
  for (const variable of container.env ?? []) {
    const value = variable.valueFrom === undefined ? expand(variable.value ?? '', values) : fromReference(input, variable);
    if (value !== undefined) values[variable.name] = value;
  }
  return values;
}

function fromSource({ store, pod }: EnvironmentInput, source: V1EnvFromSource): Record<string, string> {
  const reference = source.configMapRef ?? source.secretRef;
  const name = reference?.name ?? '';
  const kind = source.configMapRef === undefined ? 'secret' : 'configmap';
  const object = store.get(`${kind}s`, pod.metadata.namespace, name);
  if (object === undefined) {
    if (reference?.optional === true) return {};
    throw new ConfigError(`${kind} "${name}" not found`);
  }
  const entries = Object.entries(dataOf(object)).map(
    ([key, value]) => [`${source.prefix ?? ''}${key}`, value.toString()] as const,
  );
  return Object.fromEntries(entries.filter(([key]) => isEnvName(key)));
}

function fromReference({ store, pod, container, podIP }: EnvironmentInput, { valueFrom }: V1EnvVar): string | undefined {
  if (valueFrom?.fieldRef !== undefined) {
    const { fieldPath } = valueFrom.fieldRef;
    const value = fieldValue(pod, fieldPath, podIP);
    if (value === undefined) throw new ConfigError(`unsupported fieldPath: ${fieldPath}`);
    return value;
  }
  if (valueFrom?.resourceFieldRef !== undefined) {
    return resourceValue(containerOf(pod, valueFrom.resourceFieldRef.containerName) ?? container, valueFrom.resourceFieldRef);
  }
  const reference = valueFrom?.configMapKeyRef ?? valueFrom?.secretKeyRef;
  if (reference === undefined) return undefined;
  const [resource, kind] = valueFrom?.configMapKeyRef === undefined ? ['secrets', 'Secret'] : ['configmaps', 'ConfigMap'];
  const { namespace } = pod.metadata;
  const object = store.get(resource, namespace, reference.name ?? '');
  const value = object === undefined ? undefined : dataOf(object)[reference.key];
  if (value !== undefined) return value.toString();
  if (reference.optional === true) return undefined;
  if (object === undefined) throw new ConfigError(`${kind.toLowerCase()} "${reference.name}" not found`);
  throw new ConfigError(`couldn't find key ${reference.key} in ${kind} ${namespace}/${reference.name}`);
}

/** What a ConfigMap or Secret holds, by key. */
export function dataOf(object: KubeObject): Record<string, Buffer> {
  const encoded = object.kind === 'Secret' ? object.data : object.binaryData;
  const plain = object.kind === 'Secret' ? {} : object.data;
  return {
    ...Object.fromEntries(Object.entries(plain ?? {}).map(([key, value]) => [key, Buffer.from(String(value))])),
    ...Object.fromEntries(Object.entries(encoded ?? {}).map(([key, value]) => [key, Buffer.from(String(value), 'base64')])),
  };
}
