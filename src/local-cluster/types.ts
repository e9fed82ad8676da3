import type { Duplex, Readable, Writable } from 'node:stream';

/** Any API object, as JSON. */
export interface KubeObject {
  apiVersion: string;
  kind: string;
  metadata: ObjectMeta;
  // biome-ignore lint/suspicious/noExplicitAny: objects of every kind pass through the store; the typed views live at its users
  [key: string]: any;
}

export interface ObjectMeta {
  name: string;
  namespace?: string;
  uid: string;
  resourceVersion: string;
  creationTimestamp: string;
  generation?: number;
  deletionTimestamp?: string;
  deletionGracePeriodSeconds?: number;
  finalizers?: string[];
  ownerReferences?: {
    apiVersion: string;
    kind: string;
    name: string;
    uid: string;
    controller?: boolean;
    blockOwnerDeletion?: boolean;
  }[];
  labels?: Record<string, string>;
  annotations?: Record<string, string>;
  generateName?: string;
}

export interface StoreEvent {
  readonly type: 'ADDED' | 'MODIFIED' | 'DELETED';
  /** Plural resource: `pods`, `persistentvolumeclaims`, … */
  readonly resource: string;
  /** A frozen copy: safe to keep. */
  readonly object: KubeObject;
  /** The state before, for MODIFIED and DELETED. */
  readonly previous?: KubeObject;
}

/** The in-memory etcd: every write has a new resourceVersion and one event, in order. */
export interface Store {
  get(resource: string, namespace: string | undefined, name: string): KubeObject | undefined;
  list(resource: string, namespace?: string): KubeObject[];
  /** Fills uid, resourceVersion, creationTimestamp. Throws when the name is taken. */
  create(
    resource: string,
    object: Omit<KubeObject, 'metadata'> & { metadata: Partial<ObjectMeta> & { name: string } },
  ): KubeObject;
  /**
   * Read, change, write in one step. `change` gets a mutable copy and may return false to leave it as it is.
   * Undefined when there is no such object (or, with `uid`, when the name now belongs to another).
   */
  update(
    resource: string,
    namespace: string | undefined,
    name: string,
    // biome-ignore lint/suspicious/noConfusingVoidType: a change that just ends means "write it"
    change: (object: KubeObject) => false | undefined | void,
    uid?: string,
  ): KubeObject | undefined;
  /** Removes it now, whatever its finalizers. */
  remove(resource: string, namespace: string | undefined, name: string, uid?: string): KubeObject | undefined;
  /** Called synchronously after each write; must not throw. Returns the unsubscriber. */
  subscribe(listener: (event: StoreEvent) => void): () => void;
  /** The resourceVersion of the latest write. */
  readonly resourceVersion: string;
}

export interface ContainerRef {
  readonly podUid: string;
  readonly container: string;
}

export interface RunningProcess {
  readonly stdin: Writable | undefined;
  readonly stdout: Readable;
  readonly stderr: Readable | undefined;
  /** Settles once the process has ended and its output was delivered. */
  readonly exit: Promise<{ exitCode: number }>;
  resize(columns: number, rows: number): void;
  kill(): void;
}

/** Thrown by the runtime where the kubelet would answer an exec, log or forward with an error; `reason` is its text. */
export interface RuntimeRefusal {
  readonly status: 400 | 404 | 500;
  readonly message: string;
}

/** What the API server needs from the node: the other half of the embedded cluster. */
export interface NodeRuntime {
  exec(ref: ContainerRef, command: readonly string[], options: { stdin: boolean; tty: boolean }): Promise<RunningProcess>;
  /** Attaches to the output (and stdin) of the container's own process. */
  attach(ref: ContainerRef, options: { stdin: boolean }): Promise<RunningProcess>;
  logs(
    ref: ContainerRef,
    options: {
      follow: boolean;
      previous: boolean;
      tailLines?: number;
      sinceSeconds?: number;
      limitBytes?: number;
      timestamps: boolean;
      signal: AbortSignal;
    },
  ): Promise<Readable>;
  /** A byte stream to a port on the Pod's loopback; rejects as the kubelet does when nothing listens. */
  dial(podUid: string, port: number): Promise<Duplex>;
  /** 'sandbox' (bubblewrap) or 'path' mode, with the reason when it is the weaker one. */
  readonly mode: { readonly kind: 'sandbox' | 'path'; readonly reason: string };
  /** Ends every Pod's processes and removes its folders. */
  close(): Promise<void>;
}

export interface LocalClusterOptions {
  /** 0 = a free port. */
  readonly port: number;
  /** Written 0600 by rename once /readyz answers. */
  readonly kubeconfig: string;
  readonly faults?: string;
  readonly auditLog?: string;
  /** Image name → root folder whose content is the image's toolbox. */
  readonly images?: Readonly<Record<string, string>>;
  /** Where Pods' folders live; a private temporary folder by default. Removed at close. */
  readonly dataDir?: string;
  /** `none` = path mode; otherwise the cluster runs a sandbox to see what works. */
  readonly sandbox?: 'auto' | 'none';
  /** How many changes are kept for watches and further pages (4096 by default); what is older answers 410. */
  readonly historySize?: number;
  readonly log?: (message: string) => void;
}

export interface LocalCluster {
  readonly url: string;
  readonly token: string;
  readonly kubeconfig: string;
  readonly mode: NodeRuntime['mode'];
  close(): Promise<void>;
}
