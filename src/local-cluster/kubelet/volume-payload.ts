import { createHash } from 'node:crypto';
import type { V1DownwardAPIVolumeFile, V1KeyToPath, V1ProjectedVolumeSource, V1Volume } from '@kubernetes/client-node';
import type { Store } from '../types.ts';
import { containerOf, fieldValue, resourceValue } from './downward.ts';
import { dataOf } from './environment.ts';
import type { Pod } from './pod-types.ts';
import type { Payload } from './projection.ts';

/** A volume that cannot be set up (yet): FailedMount, retried. */
export class MountError extends Error {}

export interface PayloadContext {
  readonly store: Store;
  readonly pod: Pod;
  readonly podIP: string;
}

interface KeyedSource {
  readonly name: string;
  readonly items: V1KeyToPath[] | undefined;
  readonly optional: boolean | undefined;
  readonly mode: number;
}

/** The files of a configMap, secret, downwardAPI or projected volume; undefined for other volumes. Throws MountError. */
export function volumePayload(context: PayloadContext, volume: V1Volume): Payload | undefined {
  const { configMap, secret, downwardAPI, projected } = volume;
  if (configMap !== undefined) {
    return keyed(context, 'configmap', { name: configMap.name ?? '', ...keyedOptions(configMap, configMap.defaultMode) });
  }
  if (secret !== undefined)
    return keyed(context, 'secret', { name: secret.secretName ?? '', ...keyedOptions(secret, secret.defaultMode) });
  if (downwardAPI !== undefined) return downward(context, downwardAPI.items, downwardAPI.defaultMode ?? 0o644);
  if (projected !== undefined) return projection(context, projected);
  return undefined;
}

function keyedOptions(source: { items?: V1KeyToPath[]; optional?: boolean }, mode: number | undefined) {
  return { items: source.items, optional: source.optional, mode: mode ?? 0o644 };
}

function keyed({ store, pod }: PayloadContext, kind: 'configmap' | 'secret', source: KeyedSource): Payload {
  const { namespace } = pod.metadata;
  const object = store.get(`${kind}s`, namespace, source.name);
  if (object === undefined) {
    if (source.optional === true) return new Map();
    throw new MountError(`${kind} "${source.name}" not found`);
  }
  const data = dataOf(object);
  if (source.items === undefined || source.items.length === 0) {
    return new Map(Object.entries(data).map(([key, content]) => [key, { content, mode: source.mode }]));
  }
  const files: Payload = new Map();
  for (const { key, path, mode } of source.items) {
    const content = data[key];
    if (content !== undefined) files.set(path, { content, mode: mode ?? source.mode });
    else if (source.optional !== true)
      throw new MountError(`references non-existent ${kind === 'secret' ? 'secret' : 'config'} key: ${key}`);
  }
  return files;
}

function downward({ pod, podIP }: PayloadContext, items: V1DownwardAPIVolumeFile[] | undefined, defaultMode: number): Payload {
  const files: Payload = new Map();
  for (const { path, mode, fieldRef, resourceFieldRef } of items ?? []) {
    const container = containerOf(pod, resourceFieldRef?.containerName);
    const value =
      fieldRef !== undefined
        ? fieldValue(pod, fieldRef.fieldPath, podIP)
        : resourceFieldRef && container && resourceValue(container, resourceFieldRef);
    if (value === undefined) throw new MountError(`unsupported field of the downward API for ${path}`);
    files.set(path, { content: Buffer.from(value), mode: mode ?? defaultMode });
  }
  return files;
}

function projection(context: PayloadContext, projected: V1ProjectedVolumeSource): Payload {
  const files: Payload = new Map();
  const mode = projected.defaultMode ?? 0o644;
  for (const source of projected.sources ?? []) {
    const { configMap, secret, downwardAPI, serviceAccountToken } = source;
    const parts: (Payload | undefined)[] = [
      configMap && keyed(context, 'configmap', { name: configMap.name ?? '', ...keyedOptions(configMap, mode) }),
      secret && keyed(context, 'secret', { name: secret.name ?? '', ...keyedOptions(secret, mode) }),
      downwardAPI && downward(context, downwardAPI.items, mode),
      // There is no issuer: the API answers 401 to it, as to every token but its own.
      serviceAccountToken && new Map([[serviceAccountToken.path, { content: tokenOf(context.pod), mode: 0o600 }]]),
    ];
    for (const part of parts) for (const [path, file] of part ?? []) files.set(path, file);
  }
  return files;
}

function tokenOf(pod: Pod): Buffer {
  return Buffer.from(`windlass-local.${createHash('sha256').update(pod.metadata.uid).digest('base64url')}`);
}
