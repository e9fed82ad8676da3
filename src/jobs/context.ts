import type { Config, SweepKind } from '../config/schema.ts';
import type { Inventory, JobRef } from '../inventory/port.ts';
import type { Keyring } from '../inventory/secrets.ts';
import type { Shelf } from '../inventory/shelf.ts';
import type { InstanceRecord } from '../inventory/types.ts';
import type { Clusters } from '../kubernetes/port.ts';
import type { Recipes } from './recipes.ts';

export interface Log {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
  error(fields: object, message: string): void;
  fatal(fields: object, message: string): void;
}

/** What every handler may use. It knows instances, clusters and the inventory, but no queue. */
export interface JobContext {
  readonly config: Config;
  readonly inventory: Inventory;
  readonly shelf: Shelf;
  readonly clusters: Clusters;
  readonly keyring: Keyring;
  readonly recipes: Recipes;
  readonly log: Log;
  /** Names this job for waiters; opaque to handlers. */
  readonly job: JobRef;
  /** Aborted with a WindlassError when the queue's lock is lost or the worker drains. */
  readonly signal: AbortSignal;
}

export type SweepRun = (context: JobContext, options: { dryRun: boolean; ackMassDelete: boolean }) => Promise<SweepReport[]>;

/** One line of a report: what a sweep saw of one object, and what it did (I23). */
export interface SweepEntry {
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  readonly rule: string;
  readonly verdict: 'keep' | 'watch' | 'delete' | 'foreign';
  readonly evidence: Readonly<Record<string, unknown>>;
  readonly ageSeconds: number;
  readonly action: 'none' | 'deleted' | 'would_delete' | 'gone' | 'busy' | 'changed' | 'failed';
}

export interface SweepReport {
  readonly sweep: SweepKind;
  readonly cluster: string;
  readonly startedAt: string;
  readonly durationMs: number;
  readonly dryRun: boolean;
  /** Objects looked at. */
  readonly objects: number;
  readonly candidates: number;
  readonly deleted: number;
  /** Why nothing was deleted, when something stopped the sweep. */
  readonly stopped?: { readonly code: string; readonly message: string };
  readonly entries: readonly SweepEntry[];
}

/** The control key of an instance: everything that concerns it wakes its job under this name. */
export const instanceKey = (record: Pick<InstanceRecord, 'hash'>): string => `inst:${record.hash}`;
