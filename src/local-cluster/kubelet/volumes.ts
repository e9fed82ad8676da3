import { chmodSync, existsSync, lstatSync, mkdirSync, realpathSync } from 'node:fs';
import { join, normalize } from 'node:path';
import type { V1Container, V1Volume, V1VolumeMount } from '@kubernetes/client-node';
import type { Store } from '../types.ts';
import { expand } from './environment.ts';
import type { Mount } from './isolation.ts';
import type { Pod } from './pod-types.ts';
import { writePayload } from './projection.ts';
import { MountError, volumePayload } from './volume-payload.ts';

/** A volume of the Pod on this machine. */
export interface Volume {
  readonly source: string;
  /** ConfigMaps, Secrets and the like are never writable. */
  readonly readOnly: boolean;
  /** It exists inside the sandbox only. */
  readonly memory: boolean;
}

export interface VolumeOptions {
  readonly store: Store;
  readonly pod: Pod;
  readonly podIP: string;
  /** The Pod's own folder. */
  readonly folder: string;
  /** Where memory volumes lie in this mode. */
  readonly memoryFolder: (volume: string) => string;
}

const isMemory = (volume: V1Volume): boolean => volume.emptyDir?.medium === 'Memory';

/** The folders that must be memory before the Pod's sandbox is made. */
export function memoryFolders(options: Pick<VolumeOptions, 'pod' | 'memoryFolder'>): string[] {
  return (options.pod.spec.volumes ?? []).filter(isMemory).map(({ name }) => options.memoryFolder(name));
}

/** Sets one volume up, again at each retry or change. Throws MountError with the kubelet's words. */
export function setUpVolume(options: VolumeOptions, volume: V1Volume): Volume {
  const folder = join(options.folder, 'volumes', volume.name);
  if (volume.emptyDir !== undefined) {
    if (isMemory(volume)) return { source: options.memoryFolder(volume.name), readOnly: false, memory: true };
    return { source: openFolder(folder, options.pod), readOnly: false, memory: false };
  }
  if (volume.persistentVolumeClaim !== undefined) {
    const source = claimFolder(options, volume.persistentVolumeClaim.claimName);
    return { source, readOnly: volume.persistentVolumeClaim.readOnly === true, memory: false };
  }
  if (volume.hostPath !== undefined)
    return { source: hostFolder(volume.hostPath.path, volume.hostPath.type), readOnly: false, memory: false };
  const payload = volumePayload(options, volume);
  if (payload === undefined) throw new MountError('this kind of volume is not implemented by the embedded cluster');
  for (const [path, file] of payload) payload.set(path, { ...file, mode: groupReadable(file.mode, options.pod) });
  writePayload(folder, payload);
  return { source: folder, readOnly: true, memory: false };
}

/** As the kubelet does it for fsGroup: the group may do what the owner may read. */
function groupReadable(mode: number, pod: Pod): number {
  return pod.spec.securityContext?.fsGroup === undefined ? mode : mode | 0o040;
}

function openFolder(folder: string, pod: Pod): string {
  mkdirSync(folder, { recursive: true });
  chmodSync(folder, pod.spec.securityContext?.fsGroup === undefined ? 0o777 : 0o2777);
  return folder;
}

function hostFolder(path: string, type: string | undefined): string {
  if (type === 'DirectoryOrCreate') mkdirSync(path, { recursive: true });
  if (!existsSync(path)) throw new MountError(`hostPath type check failed: ${path} is not a directory`);
  return path;
}

function claimFolder({ store, pod }: VolumeOptions, name: string): string {
  const claim = store.get('persistentvolumeclaims', pod.metadata.namespace, name);
  if (claim === undefined) throw new MountError(`persistentvolumeclaim "${name}" not found`);
  if (claim.status?.phase !== 'Bound') throw new MountError(`PVC is not bound`);
  const volume = store.get('persistentvolumes', undefined, claim.spec.volumeName);
  const path: string | undefined = volume?.spec.local?.path ?? volume?.spec.hostPath?.path;
  if (path === undefined || !existsSync(path)) throw new MountError(`path "${path}" does not exist`);
  return path;
}

export interface ContainerMounts {
  readonly mounts: Mount[];
  /** Folders to make inside the sandbox first: subPaths of memory volumes. */
  readonly insideFolders: string[];
}

/** A container's mounts, parents first. Throws MountError. */
export function containerMounts(
  container: V1Container,
  volumes: ReadonlyMap<string, Volume>,
  env: Record<string, string>,
): ContainerMounts {
  const insideFolders: string[] = [];
  const mounts = (container.volumeMounts ?? []).map((mount) => {
    const volume = volumes.get(mount.name);
    if (volume === undefined) throw new MountError(`volume "${mount.name}" is not set up`);
    const subPath = mount.subPathExpr === undefined ? (mount.subPath ?? '') : expand(mount.subPathExpr, env);
    const source = subPath === '' ? volume.source : subFolder(volume, subPath, mount, insideFolders);
    return {
      source,
      target: normalize(mount.mountPath).replace(/(.)\/$/, '$1'),
      readOnly: volume.readOnly || mount.readOnly === true,
    };
  });
  return { mounts: mounts.sort((a, b) => a.target.length - b.target.length), insideFolders };
}

function subFolder(volume: Volume, subPath: string, mount: V1VolumeMount, insideFolders: string[]): string {
  const path = join(volume.source, subPath);
  const refused = new MountError(`failed to prepare subPath for volumeMount "${mount.name}" of container`);
  if (subPath.startsWith('/') || subPath.split('/').includes('..')) throw refused;
  if (volume.memory) {
    insideFolders.push(path);
    return path;
  }
  if (!volume.readOnly && lstatSync(path, { throwIfNoEntry: false }) === undefined) {
    mkdirSync(path, { recursive: true });
    chmodSync(path, 0o777);
  }
  if (!existsSync(path)) throw refused;
  // A link in a volume that users write must not lead out of it.
  const real = realpathSync(path);
  if (!real.startsWith(realpathSync(volume.source))) throw refused;
  return real;
}
