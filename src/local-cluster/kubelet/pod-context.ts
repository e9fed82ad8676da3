import type { V1Container } from '@kubernetes/client-node';
import type { Store } from '../types.ts';
import type { EventInput } from './events.ts';
import type { PodIsolation } from './isolation.ts';
import type { Pod } from './pod-types.ts';
import type { Volume } from './volumes.ts';

export type Role = 'init' | 'sidecar' | 'app';

/** What a container needs of its Pod. */
export interface PodContext {
  readonly store: Store;
  readonly images: Readonly<Record<string, string>>;
  /** The Pod as it was last seen. */
  readonly pod: () => Pod;
  /** The Pod's own folder. */
  readonly folder: string;
  /** Set up before the first container starts. */
  readonly volumes: () => ReadonlyMap<string, Volume>;
  /** The Pod's sandbox, made again when it was killed; undefined when the Pod is to end before. */
  readonly isolation: () => Promise<PodIsolation | undefined>;
  /** Aborts when the Pod is to end. */
  readonly stopping: AbortSignal;
  readonly record: (event: EventInput) => void;
  /** A container's status has changed. */
  readonly changed: () => void;
  /** Settles after the time, or earlier when a ConfigMap or Secret of the namespace changed or the Pod is to end. */
  readonly configChange: (ms: number) => Promise<void>;
  /** Called once each time a container of a fault image runs. */
  readonly actOut: (kind: string) => void;
}

export function fieldPath(role: Role, container: V1Container): string {
  return role === 'app' ? `spec.containers{${container.name}}` : `spec.initContainers{${container.name}}`;
}
