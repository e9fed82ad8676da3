import { poll } from '../clock.ts';
import { WindlassError } from '../errors.ts';
import type { CreateRecord, InstanceRecord } from '../inventory/types.ts';
import { adoptable } from '../kubernetes/ownership.ts';
import type { Cluster } from '../kubernetes/port.ts';
import { claimName, podName } from '../names.ts';
import type { RemoveContext, RemoveOutcome } from './stage.ts';

/** A create whose fate is unknown may land this long after it was sent (I5). */
const lateCommitMs = 60_000;
/** How long a removal looks on before it hands its slot back and waits as a delayed job. */
const lookOnMs = 3000;

/**
 * Removes one object of ours by UID and says whether it is really gone: NotFound and another UID are success (I12).
 * A create that may still land keeps the record: it is asked for again until the send is 60 s old (I5).
 */
export async function removeByUid(context: RemoveContext, kind: CreateRecord['kind']): Promise<RemoveOutcome> {
  const record = context.record();
  const intent = record.creates[kind];
  const name = derivedName(record, kind);
  assertSameNamespace(record, context.cluster);
  const uid = recordedUid(record, kind) ?? intent?.uid;
  const target = uid ?? (intent ? await landed(context, intent) : undefined);
  if (target !== undefined) {
    context.lease.assertHeld();
    const graceSeconds = context.force && kind === 'pods' ? 1 : undefined;
    await context.cluster.remove(kind, name, {
      uid: target,
      signal: context.signal,
      instance: name,
      ...(graceSeconds === undefined ? {} : { graceSeconds }),
    });
    const gone = () => isGone(context, kind, name, target);
    if (!(await poll(gone, { everyMs: 100, forMs: lookOnMs, signal: context.signal })))
      return { kind: 'wait', delayMs: 2000, ready: gone };
  }
  const openUntil = intent?.open ? intent.sentAt + lateCommitMs - context.now() : 0;
  if (target === undefined && openUntil > 0) return { kind: 'wait', delayMs: openUntil, ready: async () => false };
  return { kind: 'gone', set: { creates: without(record, kind) } };
}

async function isGone(context: RemoveContext, kind: CreateRecord['kind'], name: string, uid: string): Promise<boolean> {
  const object = await context.cluster.read(kind, name, { signal: context.signal });
  return object?.metadata?.uid !== uid;
}

/** The UID of what a send left behind whose answer we never saw; only our nonce makes it ours. */
async function landed(context: RemoveContext, intent: CreateRecord): Promise<string | undefined> {
  if (intent.sentAt === 0) return undefined;
  const object = await context.cluster.read(intent.kind, intent.name, { signal: context.signal });
  if (object === undefined) return undefined;
  const verdict = adoptable(object.metadata ?? {}, { nonce: intent.nonce, uid: undefined, specHash: undefined });
  return verdict === 'foreign' ? undefined : object.metadata?.uid;
}

function recordedUid(record: InstanceRecord, kind: CreateRecord['kind']): string | undefined {
  const uid = kind === 'pods' ? record.pod?.uid : record.workspace?.created ? record.workspace.claimUid : undefined;
  return uid === '' ? undefined : uid;
}

/** Deletes go to the derived name only; a record that says otherwise is broken and nothing is sent (I16). */
export function derivedName(record: InstanceRecord, kind: CreateRecord['kind']): string {
  const derived = kind === 'pods' ? podName(record.hash) : claimName(record.hash);
  const made = kind === 'pods' ? record.pod?.name : record.workspace?.created ? record.workspace.claimName : undefined;
  const strange = [made, record.creates[kind]?.name].find((name) => name !== undefined && name !== derived);
  if (strange !== undefined) {
    throw new WindlassError(
      'invariant_broken',
      `The record names ${strange} where only ${derived} can be ours. Nothing was deleted.`,
    );
  }
  return derived;
}

/** In any namespace but the recorded one nothing would be found, and what is there would count as gone (I16). */
export function assertSameNamespace(record: InstanceRecord, cluster: Pick<Cluster, 'namespace'>): void {
  const made = record.pod !== null || record.workspace?.created || Object.values(record.creates).some(({ sentAt }) => sentAt > 0);
  if (!made || record.namespace === '' || record.namespace === cluster.namespace) return;
  throw new WindlassError(
    'invariant_broken',
    `The record is of namespace ${record.namespace}, but the cluster is configured for ${cluster.namespace}. Nothing was deleted.`,
  );
}

function without(record: InstanceRecord, kind: CreateRecord['kind']): InstanceRecord['creates'] {
  return Object.fromEntries(Object.entries(record.creates).filter(([key]) => key !== kind));
}
