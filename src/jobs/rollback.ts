import { asWindlassError, errorBody, WindlassError } from '../errors.ts';
import type { FailureRecord, InstanceRecord, NewEvent } from '../inventory/types.ts';
import { sanitize } from '../kubernetes/sanitize.ts';
import type { HeldJob } from './bench.ts';
import { backoffMs, launchAttempts, spreadMs } from './catalog.ts';
import { instanceKey } from './context.ts';
import { type Exit, longestWaitMs } from './exit.ts';
import { allStages } from './plan.ts';
import { removeStages } from './remove-stages.ts';
import { resumes } from './resume.ts';
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
  const retry = disposition === 'retryable' && job.now() < job.record().deadlineAt;
  const attemptsLeft = retry ? Math.max(0, job.record().attemptsLeft - 1) : 0;
  if (job.record().state === 'ready') return stayReady(job, error, stage, attemptsLeft);
  if (disposition === 'bug') return stop(job, error, stage);
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
  const delayMs = Math.min(longestWaitMs, error.retryAfterMs === undefined ? backoffMs(3) : spreadMs(error.retryAfterMs));
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

/** A reconnect that fails while its Pod lives has changed nothing: the instance is what it was. */
async function stayReady(job: HeldJob, error: WindlassError, stage: string, attemptsLeft: number): Promise<Exit> {
  const record = job.record();
  if (error.row.disposition === 'bug')
    job.log.fatal({ code: error.code, instance: record.hash, stage, err: error }, 'invariant broken');
  const failure = failureOf(record, error, stage, attemptsLeft, job.now());
  const { code, message } = failure;
  const ending: NewEvent =
    attemptsLeft > 0 ? { type: 'retrying', code, attemptsLeft } : { type: 'failed', code, message, stage, state: 'ready' };
  const set = { failure, attemptsLeft, stages: [], readyAt: record.readyAt };
  try {
    // Naming the state ends the run: beginning it again is settled.
    await job.write({
      ...(attemptsLeft > 0 ? {} : { state: 'ready' }),
      set,
      events: [ending],
      release: true,
      wake: [instanceKey(record)],
    });
  } catch (refusal) {
    return yieldTo(job, reasonOf(job, refusal));
  }
  return { kind: 'failed', error, retryAfterMs: attemptsLeft > 0 ? backoffMs(launchAttempts - attemptsLeft) : undefined };
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
  // A run on a lost instance is of the same generation as what it found, and that holds somebody's work: its claim is
  // left as it is, and of Pods only the one that this run made is taken.
  const resumed = resumes(record);
  const takes = (generation: number, run = 1) => generation === record.generation && (!resumed || run === record.run);
  const stages = resumed ? allStages.filter(({ name }) => name !== 'workspace') : allStages;
  const removed = await removeStages(job, { takes, keepWorkspace: false, force: false }, stages);
  if (removed.kind === 'wait') return removed.exit;
  if (removed.kind === 'yielded') return yieldTo(job, removed.error);
  if (removed.errors.length > 0) return leaveForCleanup(job, removed.errors);
  const retry = record.attemptsLeft > 0;
  const state = record.before === 'suspended' || record.before === 'lost' ? record.before : retry ? 'requested' : 'failed';
  const failure = record.failure;
  const ending: NewEvent = retry
    ? { type: 'retrying', attemptsLeft: record.attemptsLeft }
    : { type: 'failed', code: failure?.code ?? 'unclassified', message: failure?.message ?? '', stage: failure?.stage ?? '' };
  // The Pod that stays can only be talked to with these. The sealed secrets stay for `retry` and the next reconnect.
  const secrets = job.record().pod === null ? { agentToken: null, agentNonce: null } : {};
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
  // What holds work of before this launch outlives its removal.
  const keepWorkspace = record.before === 'suspended' || record.before === 'lost';
  const intent = keepWorkspace ? 'suspended' : 'absent';
  const payload = {
    version: 1,
    instanceId: record.instanceId,
    reason: 'cleanup after a failed launch',
    ...(keepWorkspace ? { keepWorkspace } : {}),
  };
  // The lease is gone already: what somebody has asked for since, a launch after a teardown say, must not be removed.
  const expected = { generation: record.generation, expiresAt: record.expiresAt };
  await job.inventory.intendSweptRemoval({ instanceId: record.instanceId, intent, payload, expected });
  return { kind: 'failed', error: failedWith(failure), retryAfterMs: undefined };
}

function failedWith(failure: FailureRecord | null): WindlassError {
  if (failure === null) return new WindlassError('unclassified');
  return new WindlassError(failure.code, failure.message, { hint: failure.hint });
}
