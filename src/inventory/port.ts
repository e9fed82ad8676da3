import type { RedisFacts } from './redis-facts.ts';
import type { InstanceEvent, InstanceRecord, Intent, NewEvent, State, Tombstone } from './types.ts';

/** Names the queue entry that carries a request. */
export interface JobRef {
  readonly queue: 'launch' | 'teardown' | 'sweep';
  readonly jobId: string;
}

/** A waiter that somebody took off its keys to promote it. */
export interface Claim extends JobRef {
  /** Redis ms, as Redis writes it: tells this claim from a later one of the same job. */
  readonly claimedAt: string;
}

export interface PendingJob extends JobRef {
  readonly name: string;
  readonly data: Readonly<Record<string, unknown>>;
  readonly priority: number;
}

export interface LaunchIntent {
  readonly instanceId: string;
  readonly owner: string;
  readonly payload: Readonly<Record<string, unknown>>;
  readonly requestHash: string;
  readonly cluster: string;
  readonly profile: string;
  readonly app: string;
  /** JWE sealed by the producer, or ''. Kept beside the record, never in it. */
  readonly sealedEnv: string;
  readonly deadlineSeconds: number;
  readonly attempts: number;
  readonly lifetime: Readonly<Record<string, unknown>>;
  readonly limits: Readonly<Record<string, string>>;
  /** A raw job that came without generation: its intent is made once per job id. */
  readonly rawJobId?: string;
  /** Ask for a new run of a ready, lost or suspended instance. */
  readonly reconnect?: boolean;
  /** Ask for a new run of this one, which ended with a failure; 'conflict' when it is not the last any more. */
  readonly redrive?: { readonly generation: number; readonly run: number };
}

export type LaunchAnswer =
  | {
      readonly kind: 'accepted' | 'deduplicated';
      readonly generation: number;
      readonly run: number;
      readonly state: State;
      readonly job: PendingJob;
    }
  | { readonly kind: 'conflict' }
  | { readonly kind: 'taken' };

/** Asked for by somebody who has read the record: `seen` is the generation that he read. */
export interface RepeatedIntent extends LaunchIntent {
  readonly seen: number;
}

export interface RemovalIntent {
  readonly instanceId: string;
  /** undefined = operator: any owner. Another owner's id is answered as if it were not there. */
  readonly owner?: string;
  readonly intent: Extract<Intent, 'absent' | 'suspended'>;
  readonly payload: Readonly<Record<string, unknown>>;
  readonly rawJobId?: string;
}

export type RemovalAnswer =
  | {
      readonly kind: 'accepted' | 'deduplicated';
      readonly generation: number;
      readonly run: number;
      readonly state: State;
      readonly job: PendingJob;
    }
  | { readonly kind: 'missing' }
  | { readonly kind: 'gone' };

/** A removal that a sweep asks for: of what it looked at, not of what came since. */
export interface SweptRemoval extends RemovalIntent {
  readonly expected: Pick<InstanceRecord, 'generation' | 'expiresAt'>;
  readonly events?: readonly NewEvent[];
}

/** All in ms. `longest` counts from `readyAt`, `suspended` from now. */
export interface Extension {
  readonly instanceId: string;
  readonly owner?: string;
  readonly by: number;
  readonly longest: number;
  readonly suspended: number;
}

export type ExtensionAnswer =
  | { readonly kind: 'ok'; readonly expiresAt: number; readonly clamped: boolean }
  | { readonly kind: 'missing' | 'gone' }
  | { readonly kind: 'unfit'; readonly state: State };

/** A record as rebuilt from the cluster (design §7). */
export interface RecoveredRecord {
  readonly instanceId: string;
  readonly owner: string;
  readonly fields: Partial<InstanceRecord> & Pick<InstanceRecord, 'state' | 'intent' | 'generation' | 'run' | 'request'>;
  readonly secrets: Readonly<Record<string, string>>;
  readonly events: readonly NewEvent[];
}

/** The right to act on one instance until `deadline`; renewed by the process's keeper once a second. */
export interface Lease {
  readonly hash: string;
  readonly instanceId: string;
  readonly fence: string;
  /** Aborted with a WindlassError (`lease_lost` or `superseded`) when the right ends or a newer intent is seen. */
  readonly signal: AbortSignal;
  /** True while the lease is surely ours by the monotonic clock; checked right before every cluster write (I9). */
  held(): boolean;
  /** Throws lease_lost unless held(). */
  assertHeld(): void;
  /** Releases at once (idempotent; also wakes those who wait for it). */
  release(): Promise<void>;
}

export interface BeginOptions {
  /** The queue's id of the asking job: a second begin renews only for the same one. */
  readonly job?: string;
  readonly verb: 'launch' | 'teardown' | 'sweep';
  readonly generation: number;
  readonly run: number;
  readonly caps?: { readonly owner: number; readonly cluster: number; readonly global: number; readonly launching: number };
  /**
   * Fields and create intents to store in the same script (launch: placement, snapshot, hashes, creates, stages). Merged
   * at every begin, a resumed one too: `creates` given again would forget UIDs.
   */
  readonly set?: Partial<InstanceRecord>;
  /** The version of the record that `set` was made of: with another one, nothing is written (`changed`). */
  readonly seen?: number;
  readonly events?: readonly NewEvent[];
}

export type BeginAnswer =
  | { readonly kind: 'ok'; readonly lease: Lease; readonly record: InstanceRecord }
  | { readonly kind: 'wait'; readonly reason: 'lease_held' | 'removing' | 'owner_limit' | 'cluster_saturated' | 'recovering' }
  /** A newer intent exists (or this one was already finished): end without a side effect. */
  | { readonly kind: 'superseded' }
  | { readonly kind: 'missing' }
  /** The record is not what `seen` says any more: read it again. */
  | { readonly kind: 'changed' }
  /** The generation has already reached this end: nothing to do. */
  | { readonly kind: 'settled'; readonly record: InstanceRecord };

export interface WriteOptions {
  /**
   * New state; the script refuses an illegal transition (`invariant_broken`). A launch's run has ended with `ready` and
   * `failed`, and with `suspended` and `lost` when `attemptsLeft` is 0: beginning it again answers `settled`.
   */
  readonly state?: State;
  readonly set?: Partial<InstanceRecord>;
  readonly events?: readonly NewEvent[];
  /** Encrypted values to keep or (null) drop, in the same script (I18). */
  readonly secrets?: Readonly<Record<string, string | null>>;
  /** Release the lease in the same script (an orderly exit: clears `crashes`). */
  readonly release?: boolean;
  /** Register the job as a waiter on these wake keys, in the same script (before the lease is released). */
  readonly waitOn?: { readonly job: JobRef; readonly keys: readonly string[] };
  /** Wake keys to bump in the same script. Who waits on them is claimed afterwards with `claimWaiters`. */
  readonly wake?: readonly string[];
}

/** What a waiter saw when it registered: compare with `wakeNumbers` to find a lost wake-up. */
export interface WaitTicket {
  readonly numbers: Readonly<Record<string, number>>;
}

export interface ListOptions {
  readonly states?: readonly State[];
  readonly owner?: string;
  /** 1 to 500. */
  readonly limit: number;
  readonly cursor?: string;
}

export interface RecordPage<K extends keyof InstanceRecord> {
  readonly items: readonly Pick<InstanceRecord, K>[];
  readonly nextCursor: string | null;
}

/**
 * All instances of one installation in Redis. Every write is one Lua script; only intents (and later redrive and
 * recover) create a record. Redis that cannot be reached is `redis_unavailable`.
 */
export interface Inventory {
  hashOf(instanceId: string): string;

  intendLaunch(intent: LaunchIntent): Promise<LaunchAnswer>;
  /** 'overtaken' = another generation is wanted by now, or none; nothing was asked for. */
  intendAgain(intent: RepeatedIntent): Promise<LaunchAnswer | { readonly kind: 'overtaken' }>;
  intendRemoval(intent: RemovalIntent): Promise<RemovalAnswer>;
  /** 'changed' = the record is not any more what the sweep saw; nothing was asked for. */
  intendSweptRemoval(intent: SweptRemoval): Promise<RemovalAnswer | { readonly kind: 'changed' }>;
  /** Moves `expiresAt` later, at most to the limits, never earlier. */
  extend(extension: Extension): Promise<ExtensionAnswer>;
  /** The job was added: forget the pending entry. */
  clearPending(jobId: string): Promise<void>;
  /** Entries older than `ageMs`, to be added again by a worker (same id: a no-op when it exists). */
  stalePending(ageMs: number): Promise<readonly PendingJob[]>;

  begin(instanceId: string, options: BeginOptions): Promise<BeginAnswer>;
  /** Try-lease for a sweep: works on a name without a record too; undefined = somebody holds it. */
  tryLease(hash: string): Promise<Lease | undefined>;
  /**
   * Makes the job of a half-way record pending again, under a sweep's lease: by its id, or as a new run (`fresh`) when
   * that id has ended. Undefined = the record changed meanwhile.
   */
  requeue(lease: Lease, fresh: boolean): Promise<{ readonly jobId: string } | undefined>;
  /** Creates the record under the lease of `tryLease`; 'known' = the inventory knows this generation or a newer one. */
  recover(lease: Lease, record: RecoveredRecord): Promise<'recovered' | 'known'>;
  /** One fenced, idempotent write. Throws lease_lost (fence), superseded (generation or run) or invariant_broken. */
  write(lease: Lease, options: WriteOptions): Promise<WaitTicket>;
  /** Ends a removal: tombstone, or `suspended`, or back to `requested` when a newer launch waits. Releases. */
  finishRemoval(
    lease: Lease,
    /** `expiresInMs`: how long a suspended instance is kept; undefined = what the record says. */
    outcome: { readonly generation: number; readonly suspended: boolean; readonly expiresInMs?: number },
  ): Promise<'gone' | 'suspended' | 'requested'>;
  /** Registers a waiter without holding the lease (begin said wait). */
  registerWait(job: JobRef, keys: readonly string[]): Promise<WaitTicket>;
  /** Waiters that were claimed longer ago than `ageMs` and have neither begun nor waited again. */
  staleClaims(ageMs: number): Promise<readonly Claim[]>;
  /** It was promoted, or is gone: this claim is forgotten, and no later one of the same job. */
  clearClaim(claim: Claim): Promise<void>;
  /** The current numbers of these wake keys. */
  wakeNumbers(keys: readonly string[]): Promise<Readonly<Record<string, number>>>;
  /** Takes up to `count` waiters off a key; each is given to one caller only. */
  claimWaiters(key: string, count: number): Promise<readonly JobRef[]>;
  /** Bumps the keys (for events outside a record write, e.g. a Pod change) and tells every worker by pub/sub. */
  wake(keys: readonly string[]): Promise<void>;
  /** Called on every wake message (a hint: it may be lost) with the key; returns the unsubscriber. */
  onWake(listener: (key: string) => void): Promise<() => void>;

  read(instanceId: string): Promise<InstanceRecord | undefined>;
  readByHash(hash: string): Promise<InstanceRecord | undefined>;
  tombstone(instanceId: string): Promise<Tombstone | undefined>;
  tombstoneByHash(hash: string): Promise<Tombstone | undefined>;
  /** Only these fields of many records, in one round trip; undefined = no record. In the order of `hashes`. */
  readFields<K extends keyof InstanceRecord>(
    hashes: readonly string[],
    fields: readonly K[],
  ): Promise<readonly (Pick<InstanceRecord, K> | undefined)[]>;
  /** Those of many objects that are not the Pod or the claim (by UID) of the record of their name, if there is one at all. */
  unrecorded<T extends { readonly hash: string; readonly uid: string }>(
    kind: 'pods' | 'persistentvolumeclaims',
    objects: readonly T[],
  ): Promise<T[]>;
  list(options: ListOptions): Promise<RecordPage<keyof InstanceRecord>>;
  /** As `list`, but reads only these fields: for passes over all there is. */
  listFields<K extends keyof InstanceRecord>(fields: readonly K[], options: ListOptions): Promise<RecordPage<K>>;
  /** How many records are in each state. */
  counts(): Promise<Readonly<Record<State, number>>>;
  /** Hashes of records whose `expiresAt` is set and not after `before` (Redis ms), the longest expired first. */
  expired(before: number, limit: number): Promise<readonly string[]>;
  secrets(hash: string): Promise<Readonly<Record<string, string>>>;
  leaseHolder(hash: string): Promise<{ readonly holder: string; readonly ttlMs: number } | undefined>;
  events(instanceId: string, after: number, limit: number): Promise<readonly InstanceEvent[]>;
  /** Resolves when an event newer than `after` is there or `timeoutMs` passed; woken by pub/sub, checked by reading. */
  waitForEvent(instanceId: string, after: number, timeoutMs: number, signal?: AbortSignal): Promise<void>;

  /** Redis TIME in ms. */
  now(): Promise<number>;
  /** What INFO says of the server: memory for admission, persistence for warnings. */
  facts(): Promise<RedisFacts>;
  close(): Promise<void>;
}
