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

/** Of a queue entry: to be worked on some time · over · not there. */
export type JobState = 'open' | 'ended' | 'missing';

/** What every handler may use. It knows instances, clusters and the inventory, but no queue. */
export interface JobContext {
  readonly config: Config;
  /** The folder that relative paths in the configuration start from. */
  readonly dir: string;
  readonly inventory: Inventory;
  readonly shelf: Shelf;
  readonly clusters: Clusters;
  readonly keyring: Keyring;
  readonly recipes: Recipes;
  readonly log: Log;
  /** Whether no new launch may begin for now, whatever its caps say. */
  readonly pressed: () => boolean;
  /** Whether the queue still has a job; who supplies it knows the queue. */
  readonly jobState: (job: JobRef) => Promise<JobState>;
  /** Told of every pass that ran, for metrics. */
  readonly sweepDone: (report: SweepReport) => void;
  /** Names this job for waiters; opaque to handlers. */
  readonly job: JobRef;
  /** Aborted with a WindlassError when the queue's lock is lost or the worker drains. */
  readonly signal: AbortSignal;
}

/** What a sweep may do about one thing. `delete` and `teardown` take something away: the breaker counts them (I22). */
export type Remedy = 'delete' | 'teardown' | 'suspend' | 'mark_lost' | 'requeue' | 'settle' | 'warn';

/** One line of a report: what a sweep saw of one object, and what it did (I23). */
export interface SweepEntry {
  readonly kind: string;
  readonly name: string;
  readonly uid: string;
  readonly rule: string;
  /** keep = fine · watch = would be acted on, but too young or seen once · foreign, report = only told · else what to do. */
  readonly verdict: 'keep' | 'watch' | 'foreign' | 'report' | Remedy;
  readonly evidence: Readonly<Record<string, unknown>>;
  readonly ageSeconds: number;
  /** deleted, done = acted · gone, changed = no longer so when looked at again · busy = somebody else acts on it. */
  readonly action: 'none' | 'deleted' | 'done' | 'gone' | 'busy' | 'changed' | 'failed' | `would_${Remedy}`;
}

export interface SweepReport {
  /** The sweep's job: several reports of one run share it. */
  readonly id: string;
  readonly sweep: SweepKind;
  readonly cluster: string;
  readonly startedAt: string;
  readonly durationMs: number;
  readonly dryRun: boolean;
  /** Objects or records looked at. */
  readonly objects: number;
  readonly candidates: number;
  readonly deleted: number;
  /** Other remedies that were applied. */
  readonly acted: number;
  /** How many of those looked at got each verdict. */
  readonly verdicts: Readonly<Partial<Record<SweepEntry['verdict'], number>>>;
  /** Why nothing was deleted, when something stopped the sweep. */
  readonly stopped?: { readonly code: string; readonly message: string };
  /** All that is not in order, up to a limit; `more` = how many are left out. */
  readonly entries: readonly SweepEntry[];
  readonly more: number;
}

/** The control key of an instance: everything that concerns it wakes its job under this name. */
export const instanceKey = (record: Pick<InstanceRecord, 'hash'>): string => `inst:${record.hash}`;
