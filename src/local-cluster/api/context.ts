import type { Operation } from 'fast-json-patch';
import type { AuditLog } from '../audit.ts';
import type { Faults } from '../faults.ts';
import type { ClusterStore } from '../store.ts';
import type { NodeRuntime } from '../types.ts';

/** What every handler works on. */
export interface ApiContext {
  readonly store: ClusterStore;
  readonly node: NodeRuntime;
  /** True while a `hide_from_list_ms` fault still covers this object. */
  readonly hidden: (uid: string, forMs: number) => boolean;
  readonly log: (message: string) => void;
}

/** How one write is to be done. */
export interface WriteOptions {
  readonly dryRun: boolean;
  /** From a `mutate` fault: what a mutating webhook would change. */
  readonly mutations: readonly Operation[];
  /** From an `attachMs` fault: what the node is to know about a new object. */
  readonly annotations: Readonly<Record<string, string>>;
  /** Becomes a `Warning` header. */
  readonly warn: (text: string) => void;
}

export interface ApiServerOptions {
  readonly context: ApiContext;
  readonly faults: Faults;
  readonly audit: AuditLog;
  readonly token: string;
  readonly certificate: string;
  readonly privateKey: string;
  /** 0 = a free port. */
  readonly port: number;
}
