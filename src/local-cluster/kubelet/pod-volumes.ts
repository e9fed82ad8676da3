import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import type { Store } from '../types.ts';
import type { Pod } from './pod-types.ts';
import { MountError } from './volume-payload.ts';
import { memoryFolders, setUpVolume, type Volume, type VolumeOptions } from './volumes.ts';

export interface PodVolumesOptions {
  readonly store: Store;
  readonly pod: () => Pod;
  readonly podIP: () => string;
  readonly folder: string;
  readonly memoryRoot: string | undefined;
  readonly failed: (message: string) => void;
}

/** The volumes of one Pod. */
export class PodVolumes {
  readonly all = new Map<string, Volume>();
  readonly #options: PodVolumesOptions;

  constructor(options: PodVolumesOptions) {
    this.#options = options;
  }

  get memoryFolders(): string[] {
    return memoryFolders(this.#volumeOptions());
  }

  /** Sets up what is not yet; false when something is missing still, which was reported. */
  setUp(): boolean {
    const volumes = this.#options.pod().spec.volumes ?? [];
    return volumes.every((volume) => this.all.has(volume.name) || this.#attempt(volume));
  }

  /** Brings the files of ConfigMaps and the like up to date; what cannot be read stays as it was mounted. */
  refresh(): void {
    for (const volume of this.#options.pod().spec.volumes ?? []) {
      const isFixed = volume.persistentVolumeClaim ?? volume.emptyDir ?? volume.hostPath;
      if (isFixed === undefined && this.all.has(volume.name)) this.#attempt(volume);
    }
  }

  async remove(): Promise<void> {
    for (const path of [this.#options.folder, ...this.memoryFolders]) {
      await rm(path, { recursive: true, force: true, maxRetries: 5 });
    }
  }

  #attempt(volume: Parameters<typeof setUpVolume>[1]): boolean {
    try {
      this.all.set(volume.name, setUpVolume(this.#volumeOptions(), volume));
      return true;
    } catch (error) {
      if (!(error instanceof MountError)) throw error;
      this.#options.failed(`MountVolume.SetUp failed for volume "${volume.name}" : ${error.message}`);
      return false;
    }
  }

  #volumeOptions(): VolumeOptions {
    const { store, folder, memoryRoot } = this.#options;
    const pod = this.#options.pod();
    const root = memoryRoot === undefined ? join(folder, 'memory') : join(memoryRoot, pod.metadata.uid);
    return { store, pod, podIP: this.#options.podIP(), folder, memoryFolder: (name) => join(root, name) };
  }
}

/** How long an `attachMs` fault on the Pod or on one of its claims holds its volumes back. */
export function attachDelayMs(store: Store, { metadata, spec }: Pod): number {
  const claims = (spec.volumes ?? []).flatMap(({ persistentVolumeClaim: used }) =>
    used === undefined ? [] : store.get('persistentvolumeclaims', metadata.namespace, used.claimName)?.metadata,
  );
  return Math.max(...[metadata, ...claims].map((one) => Number(one?.annotations?.['fault.local/attach-ms'] ?? 0)));
}
