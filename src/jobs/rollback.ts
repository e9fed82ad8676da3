import { asWindlassError, errorBody, WindlassError } from '../errors.ts';
import type { FailureRecord, InstanceRecord, NewEvent } from '../inventory/types.ts';
import { sanitize } from '../kubernetes/sanitize.ts';
import type { HeldJob } from './bench.ts';
import { backoffMs, launchAttempts } from './catalog.ts';
import { instanceKey } from './context.ts';
import { type Exit, longestWaitMs } from './exit.ts';
import { removeStages } from './remove-stages.ts';
import { progressOf, StageFailure } from './run-stages.ts';

/**
 * How a launch ends that did not end well: yielded, waiting, or failed. What failed, with its evidence and the attempts
 * that are left, is stored in the same script that starts the rollback (I15).
 */
export async function failLaunch(job: HeldJob, thrown: unknown, where: string | undefined, final = false): Promise<Exit> {
  const stage = thrown instanceof StageFailure ? thrown.stage : (where ?? 'launch');
  const error = reasonOf(job, thrown instanceof StageFailure ? thrown.cause : thrown);
  const { disposition } = error.row;
  if (disposition === 'yielded') return yieldTo(job, error);
  if (disposition === 'wait' && !final && job.now() < job.record().deadlineAt) return waitOut(job, error, stage);
  if (disposition === 'bug') return stop(job, error, stage);
  const retry = disposition === 'retryable' && job.now() < job.record().deadlineAt;
  const attemptsLeft = retry ? Math.max(0, job.record().attemptsLeft - 1) : 0;
  const failure = failureOf(job.record(), error, stage, attemptsLeft, job.now());
  const started: NewEvent = { type: 'rolling_back', stage, code: error.code, message: failure.message };
  try {
    await job.write({ state: 'rolling_back', set: { failure, attemptsLeft }, events: [started] });
  } catch (refusal) {
    return yieldTo(job, reasonOf(job, refusal));
  }
  return finishRollback(job);
}

/** An abort shows as whatever the aborted call throws; the signal knows why. */
function reasonOf(job: HeldJob, thrown: unknown): WindlassError {
  for (const signal of [job.lease.signal, job.signal]) {
    if (signal.aborted) return asWindlassError(signal.reason);
  }
  return asWindlassError(thrown);
}

async function yieldTo(job: HeldJob, error: WindlassError): Promise<Exit> {
  if (error.row.disposition !== 'yielded') throw error;
  await job.lease.release();
  return { kind: 'yielded', error, again: error.code !== 'superseded' };
}

/** A wait that an adapter met in the middle of a stage (quota, throttling): burns no attempt, holds nothing. */
async function waitOut(job: HeldJob, error: WindlassError, stage: string): Promise<Exit> {
  const keys = [instanceKey(job.record())];
  const progress = progressOf(job.record(), stage);
  const others = job
    .record()
    .stages.map((known) => (known.name === stage ? { ...known, state: 'waiting' as const, wait: error.code } : known));
  const news =
    progress.wait === error.code ? [] : [{ type: 'waiting', stage, reason: error.code, message: sanitize(error.message) }];
  const ticket = await job.write({ set: { stages: others }, events: news, waitOn: { job: job.job, keys }, release: true });
  const delayMs = Math.min(longestWaitMs, error.retryAfterMs ?? backoffMs(3));
  return { kind: 'wait', reason: error.code, delayMs, keys, ticket, ready: async () => false };
}

/** A broken rule: nothing is deleted, so that a person can look; the record says what happened and waits for a removal. */
async function stop(job: HeldJob, error: WindlassError, stage: string): Promise<Exit> {
  job.log.fatal({ code: error.code, instance: job.record().hash, stage, err: error }, 'invariant broken');
  const failure = failureOf(job.record(), error, stage, 0, job.now());
  await job.write({ state: 'rolling_back', set: { failure, attemptsLeft: 0 } });
  const news: NewEvent = { type: 'cleanup_pending', code: error.code, message: failure.message };
  await job.write({ state: 'cleanup_pending', events: [news], release: true, wake: [instanceKey(job.record())] });
  return { kind: 'failed', error, retryAfterMs: undefined };
}

function failureOf(record: InstanceRecord, error: WindlassError, stage: string, attemptsLeft: number, at: number): FailureRecord {
  return {
    ...errorBody(error),
    message: sanitize(error.message),
    stage,
    generation: record.generation,
    run: record.run,
    evidence: (error.evidence ?? {}) as Record<string, unknown>,
    attemptsLeft,
    at,
  };
}

/** Removes what this generation made, then goes back to what the instance was before. A later worker may be the one to finish. */
export async function finishRollback(job: HeldJob): Promise<Exit> {
  const record = job.record();
  // A run on a lost instance is of the same generation as the claim that it found: that one holds the user's work.
  const keepWorkspace = record.before === 'lost';
  const removed = await removeStages(job, {
    takes: (generation) => generation === record.generation,
    keepWorkspace,
    force: false,
  });
  if (removed.kind === 'wait') return removed.exit;
  if (removed.kind === 'yielded') return yieldTo(job, removed.error);
  if (removed.errors.length > 0) return leaveForCleanup(job, removed.errors);
  const retry = record.attemptsLeft > 0;
  const state = record.before === 'suspended' || record.before === 'lost' ? record.before : retry ? 'requested' : 'failed';
  const failure = record.failure;
  const ending: NewEvent = retry
    ? { type: 'retrying', attemptsLeft: record.attemptsLeft }
    : { type: 'failed', code: failure?.code ?? 'unclassified', message: failure?.message ?? '', stage: failure?.stage ?? '' };
  const secrets = { agentToken: null, agentNonce: null, ...(retry ? {} : { sealedEnv: null }) };
  await job.write({
    state,
    set: { agent: null, stages: [] },
    secrets,
    events: [{ type: 'rolled_back' }, ending],
    release: true,
    wake: [instanceKey(record)],
  });
  return {
    kind: 'failed',
    error: failedWith(failure),
    retryAfterMs: retry ? backoffMs(launchAttempts - record.attemptsLeft) : undefined,
  };
}

/** The record and its secrets stay until every removal succeeded (I15); a removal job is queued for them. */
async function leaveForCleanup(job: HeldJob, errors: readonly WindlassError[]): Promise<Exit> {
  const record = job.record();
  const rollback = errors.map((error) => ({ code: error.code, message: sanitize(error.message) }));
  const failure = record.failure === null ? null : { ...record.failure, rollback };
  await job.write({
    state: 'cleanup_pending',
    set: { failure, attemptsLeft: 0 },
    events: [{ type: 'cleanup_pending', errors: rollback }],
    release: true,
  });
  const intent = record.before === 'suspended' ? 'suspended' : 'absent';
  const payload = { version: 1, instanceId: record.instanceId, reason: 'cleanup after a failed launch' };
  await job.inventory.intendRemoval({ instanceId: record.instanceId, intent, payload });
  return { kind: 'failed', error: failedWith(failure), retryAfterMs: undefined };
}

function failedWith(failure: FailureRecord | null): WindlassError {
  if (failure === null) return new WindlassError('unclassified');
  return new WindlassError(failure.code, failure.message, { hint: failure.hint });
}
