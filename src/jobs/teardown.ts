import { asWindlassError, WindlassError } from '../errors.ts';
import type { InstanceRecord } from '../inventory/types.ts';
import { keys } from '../kubernetes/ownership.ts';
import { sanitize } from '../kubernetes/sanitize.ts';
import { createBench, type HeldJob } from './bench.ts';
import { backoffMs, type JobReference, teardownSchema } from './catalog.ts';
import { cleanUpInside } from './cleanup-script.ts';
import { instanceKey, type JobContext } from './context.ts';
import type { Exit } from './exit.ts';
import { assertSameNamespace, derivedName } from './remove.ts';
import { removeStages } from './remove-stages.ts';
import { waitForBegin } from './waiting.ts';

/** How long a removal that fails is tried again before it needs a person; the record and its secrets stay. */
const cleanupRetryMs = 30_000;

/** Removes an instance: everything of generations up to this one, Pod first, then the claim (I11, I13). */
export async function teardown(context: JobContext, reference: JobReference): Promise<Exit> {
  const { instanceId, generation, run } = reference;
  const begin = () => context.inventory.begin(instanceId, { verb: 'teardown', generation, run, job: context.job.jobId });
  const begun = await begin();
  if (begun.kind === 'missing' || begun.kind === 'settled') return { kind: 'done', result: { state: 'gone' } };
  if (begun.kind === 'wait') {
    const record = await context.inventory.read(instanceId);
    if (record === undefined) return { kind: 'done', result: { state: 'gone' } };
    return waitForBegin(context, record, begun.reason, begin);
  }
  if (begun.kind !== 'ok') return { kind: 'yielded', error: new WindlassError('superseded'), again: false };
  const job = createBench(context, begun);
  try {
    return await remove(job, generation);
  } catch (error) {
    // Awaited here: while `finally` waits for Redis, a rejection that nobody listens to would end the process.
    return await failed(job, error);
  } finally {
    await job.lease
      .release()
      .catch((error: unknown) => context.log.warn({ code: asWindlassError(error).code }, 'lease not released'));
  }
}

async function remove(job: HeldJob, generation: number): Promise<Exit> {
  const payload = teardownSchema.parse(job.record().removal);
  const keepWorkspace = payload.keepWorkspace === true && job.record().workspace?.mode !== 'empty_dir';
  await verifyTargets(job);
  await markPod(job, keepWorkspace);
  await cleanUpInside(job, payload);
  await markWorkspace(job, keepWorkspace);
  const removed = await removeStages(job, { takes: (made) => made <= generation, keepWorkspace, force: payload.force === true });
  if (removed.kind === 'wait') return removed.exit;
  if (removed.kind === 'yielded') throw removed.error;
  if (removed.errors.length > 0) throw removed.errors[0];
  const expiresInMs = job.config.limits.suspendedSeconds * 1000;
  const outcome = await job.inventory.finishRemoval(job.lease, {
    generation,
    suspended: keepWorkspace && hasClaim(job.record()),
    expiresInMs,
  });
  return { kind: 'done', result: { state: outcome, generation } };
}

const hasClaim = (record: InstanceRecord) => record.workspace !== null && record.workspace.claimUid !== '';

/** All targets are looked at before the first is deleted: a record that points at something else deletes nothing (I13, I16). */
async function verifyTargets(job: HeldJob): Promise<void> {
  const record = job.record();
  derivedName(record, 'pods');
  derivedName(record, 'persistentvolumeclaims');
  assertSameNamespace(record, job.cluster);
}

/**
 * Before the caller's last words, which may take a while: should Redis be lost meanwhile, the Pod says that it is being
 * removed, and a recovery goes on with that instead of bringing it back.
 */
async function markPod(job: HeldJob, keepWorkspace: boolean): Promise<void> {
  const recorded = job.record().pod;
  if (recorded === null) return;
  const mark = keepWorkspace ? 'keep' : 'remove';
  const meta = (await job.cluster.read('pods', recorded.name, { signal: job.signal }))?.metadata;
  if (meta?.uid !== recorded.uid || meta.deletionTimestamp || meta.annotations?.[keys.removing] === mark) return;
  job.lease.assertHeld();
  const body = { metadata: { uid: recorded.uid, annotations: { [keys.removing]: mark } } };
  await job.cluster.patch('pods', recorded.name, body, { signal: job.signal });
}

/**
 * Before the Pod goes: should Redis be lost from here on, a claim without a Pod says by itself whether it is kept on
 * purpose or the rest of a removal (design §7).
 */
async function markWorkspace(job: HeldJob, kept: boolean): Promise<void> {
  const recorded = job.record().workspace;
  if (!recorded?.created || recorded.claimUid === '') return;
  const claim = await job.cluster.read('persistentvolumeclaims', recorded.claimName, { signal: job.signal });
  const meta = claim?.metadata;
  if (meta?.uid !== recorded.claimUid || meta.deletionTimestamp || (meta.annotations?.[keys.retained] === 'true') === kept)
    return;
  job.lease.assertHeld();
  const body = { metadata: { uid: recorded.claimUid, annotations: { [keys.retained]: kept ? 'true' : null } } };
  await job.cluster.patch('persistentvolumeclaims', recorded.claimName, body, { signal: job.signal });
}

async function failed(job: HeldJob, thrown: unknown): Promise<Exit> {
  const aborted = [job.lease.signal, job.signal].find((signal) => signal.aborted);
  const error = asWindlassError(aborted ? aborted.reason : thrown);
  if (error.row.disposition === 'yielded') return { kind: 'yielded', error, again: error.code !== 'superseded' };
  if (error.row.disposition === 'bug') {
    job.log.fatal({ code: error.code, instance: job.record().hash, err: error }, 'invariant broken');
    return { kind: 'failed', error, retryAfterMs: undefined };
  }
  const entry = { code: error.code, message: sanitize(error.message) };
  await job.write({
    state: 'cleanup_pending',
    events: [{ type: 'cleanup_pending', errors: [entry] }],
    release: true,
    wake: [instanceKey(job.record())],
  });
  return { kind: 'failed', error, retryAfterMs: Math.max(cleanupRetryMs, backoffMs(6)) };
}
