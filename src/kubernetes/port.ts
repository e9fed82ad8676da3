import type { Readable, Writable } from 'node:stream';
import type { V1ConfigMap, CoreV1Event as V1Event, V1ObjectMeta, V1PersistentVolumeClaim, V1Pod } from '@kubernetes/client-node';
import type { WindlassError } from '../errors.ts';

/** The kinds that Windlass creates and therefore lists, deletes and sweeps. */
export interface KindMap {
  pods: V1Pod;
  persistentvolumeclaims: V1PersistentVolumeClaim;
  configmaps: V1ConfigMap;
}
export type Kind = keyof KindMap;

export interface CallOptions {
  /** Aborting after the request was sent leaves its fate unknown: creates are then ambiguous (I5). */
  readonly signal?: AbortSignal;
  /** For the effect channel and logs only. */
  readonly instance?: string;
}

export interface RemoveOptions extends CallOptions {
  /** Always: a delete without it could hit a replacement of the same name (I12). */
  readonly uid: string;
  /** Sweeps give it too, so that an adopted (patched) object survives a stale sweeper. */
  readonly resourceVersion?: string;
  /** Seconds; never 0 unless the node is lost (I13). */
  readonly graceSeconds?: number;
}

export interface MetadataPage {
  readonly items: readonly V1ObjectMeta[];
  /** Server time of the answer (`Date` header), in ms: ages are measured with it, never with our own clock. */
  readonly serverTime: number;
}

export interface ExecTarget {
  readonly pod: string;
  readonly container: string;
}

export interface ExecOptions extends CallOptions {
  readonly stdin?: Uint8Array | Readable;
  readonly stdout?: Writable;
  readonly stderr?: Writable;
  readonly tty?: boolean;
  /** Whole call, ms; default 60 s. */
  readonly timeoutMs?: number;
}

export interface ExecResult {
  readonly exitCode: number;
  /** Captured only when no `stdout`/`stderr` stream was given; capped at 64 KiB each (the tail is kept). */
  readonly stdout: string;
  readonly stderr: string;
}

/** A local listener on 127.0.0.1 whose connections end at a port inside the Pod. */
export interface Forward {
  readonly port: number;
  /** Why the last stream into the Pod could not be opened; the local connection only sees a reset. */
  trouble(): WindlassError | undefined;
  close(): Promise<void>;
}

export interface LogOptions extends CallOptions {
  readonly container?: string;
  readonly follow?: boolean;
  readonly previous?: boolean;
  readonly tailLines?: number;
  readonly sinceSeconds?: number;
  readonly limitBytes?: number;
}

/** One change seen by the shared watch. `pod` is undefined when it is gone. */
export interface PodChange {
  readonly name: string;
  readonly pod: V1Pod | undefined;
}

/** ONE shared watch per process, cluster, namespace and resource (design §4): started on first use, relists by itself. */
export interface PodCache {
  /** Resolves once the first list is in. Rejects only when aborted. */
  ready(signal?: AbortSignal): Promise<void>;
  /** The Pod as last seen; undefined = not there as far as the watch knows (it may lag: a GET decides). */
  get(name: string): V1Pod | undefined;
  /** Events of this Pod seen by the event watch, oldest first (at most 20). */
  eventsOf(uid: string): readonly V1Event[];
  /** Called for every change of a Pod of this installation; returns the unsubscriber. */
  onChange(listener: (change: PodChange) => void): () => void;
}

export interface AccessQuestion {
  readonly verb: string;
  readonly resource: string;
  readonly subresource?: string;
  /** One object only: a Role may grant a verb by name. */
  readonly name?: string;
}

/**
 * Everything Windlass does with one configured cluster and its one namespace. Errors are WindlassErrors classified by
 * the adapter; `isAmbiguous` and `isAlreadyExists` (kubernetes/api-error.ts) tell the two apart that a caller must know.
 * Every name is checked before a request is made: an empty or dotted one would address the collection (libraries §0.2).
 */
export interface Cluster {
  readonly name: string;
  readonly namespace: string;
  /** sha256 (hex) of the connection's configuration: recorded, never the credentials. */
  readonly configHash: string;
  readonly pods: PodCache;
  /** Server clock minus ours, in ms, from the `Date` header of the latest answer (0 before the first): budgets are judged by it. */
  clockSkewMs(): number;

  create<K extends Kind>(kind: K, object: KindMap[K], options?: CallOptions & { dryRun?: boolean }): Promise<KindMap[K]>;
  /** undefined = 404 of the object. A missing namespace also reads as 404: creates tell it apart. */
  read<K extends Kind>(kind: K, name: string, options?: CallOptions): Promise<KindMap[K] | undefined>;
  /** JSON merge patch. */
  patch<K extends Kind>(kind: K, name: string, body: object, options?: CallOptions): Promise<KindMap[K]>;
  /** 'gone' = 404 or another UID holds the name; 'deleting' = accepted, may still be terminating. */
  remove(kind: Kind, name: string, options: RemoveOptions): Promise<'gone' | 'deleting'>;
  /** Pages of metadata only, in the order of the server; a 410 restarts the listing. */
  listMetadata(kind: Kind, labelSelector: string, options?: CallOptions): AsyncIterable<MetadataPage>;
  /** Whole objects, page by page: for what metadata does not tell. An empty selector takes everybody's. */
  list<K extends Kind>(kind: K, labelSelector: string, options?: CallOptions): AsyncIterable<readonly KindMap[K][]>;
  /** Events about one object, newest last, at most 50. */
  events(uid: string, options?: CallOptions): Promise<readonly V1Event[]>;

  /** Settles on every end of the socket; a close without a status is `exec_lost`. */
  exec(target: ExecTarget, command: readonly string[], options?: ExecOptions): Promise<ExecResult>;
  /** Listens on 127.0.0.1 (port 0 = free); one stream per connection, opened on demand. */
  forward(pod: string, podPort: number, options?: CallOptions & { localPort?: number }): Promise<Forward>;
  logs(pod: string, sink: Writable, options?: LogOptions): Promise<void>;
  /** The last part of a container's log as text, '' when there is none. */
  logTail(pod: string, options?: LogOptions): Promise<string>;

  /** SelfSubjectAccessReview in our namespace. */
  can(question: AccessQuestion, options?: CallOptions): Promise<{ allowed: boolean; reason: string }>;
  version(options?: CallOptions): Promise<{ gitVersion: string; serverTime: number }>;
  close(): Promise<void>;
}

/** The configured clusters, clients built lazily and kept by config hash. */
export interface Clusters {
  names(): readonly string[];
  /** Throws `config_invalid` for a name that is not configured (I16). */
  get(name: string): Cluster;
  close(): Promise<void>;
}
