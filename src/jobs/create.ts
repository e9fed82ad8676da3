import { WindlassError } from '../errors.ts';
import type { CreateRecord, InstanceRecord } from '../inventory/types.ts';
import { isAlreadyExists, isAmbiguous } from '../kubernetes/api-error.ts';
import { adoptable, specHash } from '../kubernetes/ownership.ts';
import type { KindMap } from '../kubernetes/port.ts';
import type { StageContext, StageOutcome } from './stage.ts';

type OwnedKind = CreateRecord['kind'];
export type Created<K extends OwnedKind> =
  | { readonly kind: 'object'; readonly object: KindMap[K] }
  | Extract<StageOutcome, { kind: 'wait' }>;

/** Bounds a look that must outlive an aborted caller: what a lost answer left behind has to be known (I5). */
const reconcileMs = 15_000;

interface Plan<K extends OwnedKind> {
  readonly kind: K;
  readonly wanted: KindMap[K];
  /** Stored in the same write as the UID: from then on the object can be removed by UID, mutated or not (I4). */
  readonly created: (object: KindMap[K]) => { readonly set: Partial<InstanceRecord>; readonly checkpoint: string };
}

/**
 * The one path by which an owned object comes to be, for first attempts, retries, stalled jobs and restarted workers
 * alike (I7): what may have been sent is looked up before anything is sent again, and only our nonce makes an object ours.
 */
export async function createOrAdopt<K extends OwnedKind>(context: StageContext, plan: Plan<K>): Promise<Created<K>> {
  const intent = intentOf(context.record(), plan.kind);
  if (intent.sentAt > 0) {
    const found = await lookUp(context, plan);
    if (found) return found;
  }
  await context.save({ set: withIntent(context.record(), { ...intent, sentAt: context.now(), open: true }) });
  context.lease.assertHeld();
  let object: KindMap[K];
  try {
    // Not aborted with the job: a cancelled create may land all the same, and then whoever comes next has to wait until it
    // surely will not (I5). Its own timeout bounds it; what it made without us is found by its nonce.
    object = await context.cluster.create(plan.kind, plan.wanted, { instance: intent.name });
  } catch (error) {
    return await afterFailedCreate(context, plan, error, intent.open);
  }
  // Outside of the try: a checkpoint that Redis refuses says nothing of the object, whose intent must stay open (I5).
  return keep(context, plan, object);
}

async function afterFailedCreate<K extends OwnedKind>(
  context: StageContext,
  plan: Plan<K>,
  error: unknown,
  openBefore: boolean,
): Promise<Created<K>> {
  const intent = intentOf(context.record(), plan.kind);
  // A sure answer: this send made nothing. What an earlier one may still make is waited for (I5).
  const sure = !isAmbiguous(error) && error instanceof WindlassError && error.row.disposition !== 'yielded';
  if (sure && !openBefore && intent.open) await context.save({ set: withIntent(context.record(), { ...intent, open: false }) });
  if (isAlreadyExists(error)) {
    const found = await lookUp(context, plan);
    if (found) return found;
    throw new WindlassError('conflict', `${intent.name} was there a moment ago and is gone now.`, { cause: error });
  }
  if (isAmbiguous(error)) {
    const found = await lookUp(context, plan);
    if (found) return found;
  }
  throw error;
}

/** What holds the name now: ours (kept), on its way out (wait), somebody else's (error), or nothing. */
async function lookUp<K extends OwnedKind>(context: StageContext, plan: Plan<K>): Promise<Created<K> | undefined> {
  const intent = intentOf(context.record(), plan.kind);
  const read = () =>
    context.cluster.read(plan.kind, intent.name, { signal: AbortSignal.timeout(reconcileMs), instance: intent.name });
  const object = await read();
  if (object === undefined) {
    if (intent.uid === undefined) return undefined;
    throw new WindlassError('pod_disrupted', `${intent.name} was removed by somebody else while it was being set up.`);
  }
  const verdict = adoptable(object.metadata ?? {}, {
    nonce: intent.nonce,
    uid: intent.uid,
    specHash: intent.uid === undefined ? specHash(plan.wanted) : undefined,
  });
  if (verdict === 'ours') return keep(context, plan, object);
  if (verdict === 'deleting') {
    const uid = object.metadata?.uid;
    return {
      kind: 'wait',
      reason: 'object_deleting',
      message: `${intent.name} of an earlier launch is still being deleted.`,
      delayMs: 1000,
      ready: async () => (await read())?.metadata?.uid !== uid,
    };
  }
  if (verdict === 'changed') {
    // Ours, but composed by another version: the rollback removes it by nonce and the next attempt makes it anew.
    throw new WindlassError('conflict', `${intent.name} is of an earlier attempt with other content.`);
  }
  throw new WindlassError('name_conflict', `An object named ${intent.name} exists that this launch did not make.`, {
    evidence: { kind: plan.kind, name: intent.name, uid: object.metadata?.uid ?? '' },
  });
}

async function keep<K extends OwnedKind>(context: StageContext, plan: Plan<K>, object: KindMap[K]): Promise<Created<K>> {
  const intent = intentOf(context.record(), plan.kind);
  const uid = object.metadata?.uid;
  if (!uid) throw new WindlassError('admission_mismatch', `The cluster answered the create of ${intent.name} without a UID.`);
  const done = plan.created(object);
  const creates = withIntent(context.record(), { ...intent, uid, open: false });
  await context.save({ set: { ...creates, ...done.set } }, done.checkpoint);
  return { kind: 'object', object };
}

function intentOf(record: InstanceRecord, kind: OwnedKind): CreateRecord {
  const intent = record.creates[kind];
  if (intent === undefined) throw new WindlassError('invariant_broken', `The record has no create intent for ${kind}.`);
  return intent;
}

function withIntent(record: InstanceRecord, intent: CreateRecord): Partial<InstanceRecord> {
  return { creates: { ...record.creates, [intent.kind]: intent } };
}
