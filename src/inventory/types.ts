import type { ErrorBody } from '../errors.ts';

export const states = [
  'requested',
  'launching',
  'ready',
  'lost',
  'suspended',
  'removing',
  'rolling_back',
  'failed',
  'cleanup_pending',
] as const;
export type State = (typeof states)[number];

export type Intent = 'present' | 'suspended' | 'absent';

/** A stage's progress. `checkpoint` says "it got this far under some fence", never "it still exists". */
export interface StageRecord {
  readonly name: string;
  readonly state: 'pending' | 'running' | 'waiting' | 'done' | 'failed';
  readonly checkpoint?: string;
  /** Redis ms. */
  readonly startedAt?: number;
  readonly durationMs?: number;
  readonly wait?: string;
}

/** What is known of one create before, during and after it is sent (I3 to I6). */
export interface CreateRecord {
  readonly kind: 'pods' | 'persistentvolumeclaims';
  readonly name: string;
  readonly nonce: string;
  readonly generation: number;
  /** The run that makes it when a lost Pod is rebuilt; absent = the generation's first run. */
  readonly run?: number;
  /** Redis ms of the last send; 0 = never sent. */
  readonly sentAt: number;
  /** Set by the checkpoint right after the create. */
  readonly uid?: string;
  /** True while the fate of a send is unknown: the record may not be released (I5). */
  readonly open: boolean;
}

export interface PodRecord {
  readonly name: string;
  readonly uid: string;
  readonly node: string;
  readonly ip: string;
  readonly createdByGeneration: number;
  /** Which container is the instance, and which start of it was last worked with: another id is a restart. */
  readonly main?: { readonly name: string; readonly id: string };
}

export interface WorkspaceRecord {
  readonly mode: 'managed_pvc' | 'existing_claim' | 'empty_dir';
  readonly claimName: string;
  readonly claimUid: string;
  /** True when Windlass made the claim; a claim it did not make is never deleted (I13). */
  readonly created: boolean;
  readonly createdByGeneration: number;
}

export interface AgentRecord {
  readonly id: string;
  readonly port: number;
  readonly transport: 'port_forward' | 'exec' | 'pod_ip';
  /** Absent = our own. */
  readonly protocol?: 'agentctl';
  /** `healthy`, or `idle`: its container was started anew and nobody has talked to it since. */
  readonly state: string;
}

export interface FailureRecord extends ErrorBody {
  readonly stage: string;
  readonly generation: number;
  readonly run: number;
  readonly evidence: Readonly<Record<string, unknown>>;
  readonly attemptsLeft: number;
  /** Redis ms. */
  readonly at: number;
  /** Removal errors of the rollback, joined, never replacing the first failure (I15). */
  readonly rollback?: readonly { readonly code: string; readonly message: string }[];
}

/** The accepted request without its secrets, as validated by the producer. Stored verbatim; `secretNames` only names. */
export interface RequestRecord {
  readonly payload: Readonly<Record<string, unknown>>;
  readonly requestHash: string;
}

/** One instance as Redis knows it. Times are Redis ms. */
export interface InstanceRecord {
  readonly schema: 1;
  readonly instanceId: string;
  /** 20 hex of sha256(JSON [installation, instanceId]); part of every key and object name. */
  readonly hash: string;
  readonly owner: string;
  readonly state: State;
  /** Where a rollback returns to: what it was before this launch. */
  readonly before: 'requested' | 'suspended' | 'lost' | 'failed';
  readonly intent: Intent;
  readonly generation: number;
  readonly run: number;
  /** Everything of generations <= this is to be removed; 0 = nothing. */
  readonly removeUpTo: number;
  /** The run of that removal: a launch that waits behind it has taken over `run`. Absent = 1. */
  readonly removeRun?: number;
  /** The teardown payload of that removal (cleanup, force, reason, keepWorkspace). */
  readonly removal: Readonly<Record<string, unknown>> | null;
  /** The latest fence issued, as a decimal string (may exceed 2^53). */
  readonly fence: string;
  readonly request: RequestRecord;
  readonly cluster: string;
  readonly namespace: string;
  readonly profile: string;
  readonly app: string;
  readonly snapshot: string;
  readonly hashes: { readonly cluster: string; readonly profile: string; readonly template: string } | null;
  readonly creates: Readonly<Record<string, CreateRecord>>;
  readonly pod: PodRecord | null;
  readonly workspace: WorkspaceRecord | null;
  readonly agent: AgentRecord | null;
  readonly restartCount: number;
  /** Pods of this generation that took the place of a lost one; bounded by recovery.maxRebuilds. */
  readonly rebuilds: number;
  readonly exitCode: number | null;
  readonly stages: readonly StageRecord[];
  readonly failure: FailureRecord | null;
  readonly attemptsLeft: number;
  /** Starts of a handler that did not end in order; cleared at every orderly exit (design §4). */
  readonly crashes: number;
  readonly limits: Readonly<Record<string, string>>;
  readonly lifetime: Readonly<Record<string, unknown>> | null;
  readonly createdAt: number;
  readonly readyAt: number;
  readonly updatedAt: number;
  /** Raised by every write; absent in a record of before there were versions. */
  readonly version?: number;
  readonly deadlineAt: number;
  readonly expiresAt: number;
  /** Rebuilt from the cluster after Redis lost it; `missing` names what only the request knew (design §7). */
  readonly recovered?: boolean;
  readonly missing?: readonly string[];
}

export interface Tombstone {
  readonly instanceId: string;
  readonly owner: string;
  readonly generation: number;
  readonly goneAt: number;
}

export interface InstanceEvent {
  readonly seq: number;
  readonly instanceId: string;
  readonly generation: number;
  readonly type: string;
  /** RFC 3339. */
  readonly at: string;
  readonly [key: string]: unknown;
}

/** An event to append; `seq`, `instanceId`, `generation` and `at` are given by the script. */
export interface NewEvent {
  readonly type: string;
  readonly [key: string]: unknown;
}
