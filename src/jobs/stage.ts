import type { V1PodTemplate } from '@kubernetes/client-node';
import type { ProfileConfig } from '../config/schema.ts';
import type { Lease, WriteOptions } from '../inventory/port.ts';
import type { InstanceRecord } from '../inventory/types.ts';
import type { Identity } from '../kubernetes/ownership.ts';
import type { Cluster } from '../kubernetes/port.ts';
import type { LaunchPayload } from './catalog.ts';
import type { JobContext } from './context.ts';

/** What a stage works with. `record` is always the last state that this handler wrote. */
export interface StageContext extends JobContext {
  readonly cluster: Cluster;
  readonly identity: Identity;
  readonly lease: Lease;
  readonly payload: LaunchPayload;
  readonly profile: ProfileConfig;
  readonly template: V1PodTemplate;
  record(): InstanceRecord;
  /** Aborts with the lease, the queue's lock, a newer intent, a drain, or the stage's budget. */
  readonly stageSignal: AbortSignal;
  /** A checkpoint: one fenced write; `checkpoint` is kept as the stage's own. */
  save(options: WriteOptions, checkpoint?: string): Promise<void>;
  /** Redis time in ms, without a round trip. */
  now(): number;
}

export type StageOutcome =
  | { readonly kind: 'done'; readonly write?: WriteOptions }
  | {
      readonly kind: 'wait';
      /** One of the wait codes, or `starting`. */
      readonly reason: string;
      readonly message: string;
      readonly delayMs: number;
      readonly ready: () => Promise<boolean>;
    };

/** 'gone' = nothing of this stage is left that this removal may take; otherwise ask again. */
export type RemoveOutcome =
  | { readonly kind: 'gone'; readonly set?: Partial<InstanceRecord> }
  | { readonly kind: 'wait'; readonly delayMs: number; readonly ready: () => Promise<boolean> };

export interface RemoveContext extends JobContext {
  readonly cluster: Cluster;
  readonly lease: Lease;
  record(): InstanceRecord;
  save(options: WriteOptions): Promise<void>;
  now(): number;
  /** Objects made by generations above this stay. A rollback takes only its own generation, and of that its own run (I13). */
  readonly takes: (createdByGeneration: number, createdByRun?: number) => boolean;
  readonly keepWorkspace: boolean;
  readonly force: boolean;
}

/** One owned resource or step. A later stage may rely on the earlier ones being done. */
export interface Stage {
  readonly name: string;
  /** Seconds, from the profile's budgets; its end is `launch_deadline`. */
  budget(profile: ProfileConfig): number;
  apply(context: StageContext): Promise<StageOutcome>;
  /** Absent = the stage leaves nothing outside the Pod. */
  remove?(context: RemoveContext): Promise<RemoveOutcome>;
}
