import { eventWords } from '../dashboard/words.ts';
import { WindlassError } from '../errors.ts';
import type { Inventory } from '../inventory/port.ts';
import type { FailureRecord, InstanceEvent, InstanceRecord, State, Tombstone } from '../inventory/types.ts';

/** A look at one instance: at most one of the two is there. */
export interface Glance {
  readonly record: InstanceRecord | undefined;
  readonly tombstone: Tombstone | undefined;
}

export async function glance(inventory: Inventory, instanceId: string): Promise<Glance> {
  const record = await inventory.read(instanceId);
  return { record, tombstone: record ? undefined : await inventory.tombstone(instanceId) };
}

/** The record, or what is true instead of it. */
export async function existing(inventory: Inventory, instanceId: string): Promise<InstanceRecord> {
  const { record, tombstone } = await glance(inventory, instanceId);
  if (record) return record;
  if (tombstone)
    throw new WindlassError(
      'instance_gone',
      `The instance "${instanceId}" was torn down at ${new Date(tombstone.goneAt).toISOString()}.`,
    );
  throw new WindlassError('instance_not_found', `There is no instance "${instanceId}".`);
}

/** The stored failure as an error again: its code decides the exit code. */
export const failureOf = (failure: FailureRecord): WindlassError =>
  new WindlassError(failure.code, failure.message, { issues: failure.issues, hint: failure.hint, evidence: failure.evidence });

interface FollowOptions<T> {
  /** undefined = go on waiting. */
  readonly judge: (glance: Glance) => T | undefined;
  readonly onEvent: (event: InstanceEvent) => void;
  /** Only events after this one. */
  readonly after?: number;
  readonly timeoutSeconds?: number;
  readonly signal: AbortSignal;
}

/** Pub/sub is a hint that may be lost: look again at least this often. */
const lookAgainMs = 2000;

/**
 * Shows events as they come until `judge` has an answer. Throws `wait_timeout` when the time is up (the job goes on),
 * and the signal's reason when it is aborted.
 */
export async function follow<T>(inventory: Inventory, instanceId: string, options: FollowOptions<T>): Promise<T> {
  const until =
    options.timeoutSeconds === undefined ? Number.POSITIVE_INFINITY : performance.now() + options.timeoutSeconds * 1000;
  let after = options.after ?? 0;
  for (;;) {
    options.signal.throwIfAborted();
    // The look comes first: what it decides on is then among the events read after it.
    const seen = await glance(inventory, instanceId);
    const verdict = options.judge(seen);
    after = await drain(inventory, instanceId, after, options.onEvent);
    if (verdict !== undefined) return verdict;
    const left = until - performance.now();
    if (left <= 0) throw new WindlassError('wait_timeout', lateWords(instanceId, seen, options.timeoutSeconds));
    await inventory.waitForEvent(instanceId, after, Math.min(left, lookAgainMs), options.signal);
  }
}

/** States that stay until a job begins. One may be queued: who asked for it knows, the state does not say. */
const atRest: readonly (State | undefined)[] = ['ready', 'failed', 'suspended', 'lost', undefined];

export const rests = ({ record }: Glance): boolean => atRest.includes(record?.state);

function lateWords(instanceId: string, seen: Glance, seconds: number | undefined): string {
  const state = seen.record?.state ?? 'gone';
  return `"${instanceId}" is still ${state} after ${seconds} s${rests(seen) ? '' : '; the job goes on'}.`;
}

const page = 200;

export async function drain(
  inventory: Inventory,
  instanceId: string,
  after: number,
  onEvent: (event: InstanceEvent) => void,
): Promise<number> {
  let last = after;
  for (;;) {
    const events = await inventory.events(instanceId, last, page);
    for (const event of events) {
      onEvent(event);
      // Not the highest: after Redis forgot, numbers begin anew and must be followed down.
      last = event.seq;
    }
    if (events.length < page) return last;
  }
}

/** Stages as they pass, for a person: starts and checkpoints are left out, they say nothing that the end does not. */
export function stageLine(event: InstanceEvent): string | undefined {
  if (event.type === 'stage.started' || event.type === 'stage.progress' || event.type === 'requested') return undefined;
  return `  ${event.at.slice(11, 19)}  ${eventWords(event)}`;
}
