import { WindlassError } from '../errors.ts';
import type { WaitTicket, WriteOptions } from '../inventory/port.ts';
import type { InstanceRecord, NewEvent, StageRecord } from '../inventory/types.ts';
import { instanceKey } from './context.ts';
import type { WaitExit } from './exit.ts';
import type { Stage, StageContext, StageOutcome } from './stage.ts';

/** Everything of a StageContext that does not change from stage to stage. */
export type Bench = Omit<StageContext, 'stageSignal' | 'save'> & {
  /** One fenced write; also brings `record()` up to date. */
  write(options: WriteOptions): Promise<WaitTicket>;
};

/** A stage's error together with the stage it came from. */
export class StageFailure extends Error {
  readonly stage: string;
  constructor(stage: string, cause: unknown) {
    super(`stage ${stage} failed`, { cause });
    this.stage = stage;
  }
}

/**
 * Walks the plan from the first stage that is not done. Exits: all done (undefined), a wait, or a StageFailure.
 * Before each stage: still wanted? is the launch's deadline past? Both are asked again by the next attempt.
 */
export async function runStages(bench: Bench, plan: readonly Stage[]): Promise<WaitExit | undefined> {
  for (const stage of plan) {
    if (progressOf(bench.record(), stage.name).state === 'done') continue;
    try {
      const wait = await runStage(bench, stage);
      if (wait !== undefined) return wait;
    } catch (error) {
      throw new StageFailure(stage.name, error);
    }
  }
  return undefined;
}

async function runStage(bench: Bench, stage: Stage): Promise<WaitExit | undefined> {
  assertWanted(bench);
  const started = progressOf(bench.record(), stage.name);
  const startedAt = started.startedAt ?? bench.now();
  assertInTime(bench, stage, startedAt);
  if (started.state === 'pending') {
    const events: NewEvent[] = [{ type: 'stage.started', stage: stage.name }];
    await bench.write({ set: stages(bench.record(), { ...started, state: 'running', startedAt }), events });
  }
  const outcome = await stage.apply(contextFor(bench, stage, startedAt));
  return outcome.kind === 'done' ? finish(bench, stage, startedAt, outcome) : suspend(bench, stage, startedAt, outcome);
}

function contextFor(bench: Bench, stage: Stage, startedAt: number): StageContext {
  const leftMs = Math.max(1000, startedAt + stage.budget(bench.profile) * 1000 - bench.now());
  const overBudget = new AbortController();
  const timer = setTimeout(() => overBudget.abort(deadline(stage, 'took longer than its budget')), leftMs);
  timer.unref();
  return {
    ...bench,
    stageSignal: AbortSignal.any([bench.lease.signal, bench.signal, overBudget.signal]),
    async save(options, checkpoint) {
      if (checkpoint === undefined) return void (await bench.write(options));
      const current = progressOf(bench.record(), stage.name);
      const set = { ...options.set, ...stages(bench.record(), { ...current, state: 'running', checkpoint }) };
      await bench.write({
        ...options,
        set,
        events: [...(options.events ?? []), { type: 'stage.progress', stage: stage.name, checkpoint }],
      });
    },
  };
}

async function finish(
  bench: Bench,
  stage: Stage,
  startedAt: number,
  outcome: Extract<StageOutcome, { kind: 'done' }>,
): Promise<undefined> {
  const durationMs = Math.max(0, bench.now() - startedAt);
  const { wait: _wait, ...progress } = progressOf(bench.record(), stage.name);
  const extra = outcome.write ?? {};
  await bench.write({
    ...extra,
    set: { ...extra.set, ...stages(bench.record(), { ...progress, state: 'done', durationMs }) },
    events: [{ type: 'stage.done', stage: stage.name, durationMs }, ...(extra.events ?? [])],
  });
  return undefined;
}

/** One script: checkpoint, waiter, release; the queue move follows in the consumer (design §4: the order matters). */
async function suspend(
  bench: Bench,
  stage: Stage,
  startedAt: number,
  wait: Extract<StageOutcome, { kind: 'wait' }>,
): Promise<WaitExit> {
  const progress = progressOf(bench.record(), stage.name);
  const keys = [instanceKey(bench.record())];
  const news =
    progress.wait === wait.reason ? [] : [{ type: 'waiting', stage: stage.name, reason: wait.reason, message: wait.message }];
  const untilDeadline = Math.max(200, bench.record().deadlineAt - bench.now());
  const ticket = await bench.write({
    set: stages(bench.record(), { ...progress, state: 'waiting', startedAt, wait: wait.reason }),
    events: news,
    waitOn: { job: bench.job, keys },
    release: true,
  });
  return { kind: 'wait', reason: wait.reason, delayMs: Math.min(wait.delayMs, untilDeadline), keys, ticket, ready: wait.ready };
}

function assertWanted(bench: Bench): void {
  bench.lease.signal.throwIfAborted();
  bench.signal.throwIfAborted();
}

function assertInTime(bench: Bench, stage: Stage, startedAt: number): void {
  const now = bench.now();
  if (now > bench.record().deadlineAt) throw deadline(stage, 'the whole launch took longer than allowed');
  if (now > startedAt + stage.budget(bench.profile) * 1000) throw deadline(stage, 'took longer than its budget');
}

const deadline = (stage: Stage, what: string) =>
  new WindlassError('launch_deadline', `The workspace was not ready in time: ${what} (stage ${stage.name}).`, {
    evidence: { stage: stage.name },
  });

export function progressOf(record: InstanceRecord, name: string): StageRecord {
  return record.stages.find((stage) => stage.name === name) ?? { name, state: 'pending' };
}

function stages(record: InstanceRecord, changed: StageRecord): Partial<InstanceRecord> {
  const known = record.stages.some((stage) => stage.name === changed.name);
  return {
    stages: known ? record.stages.map((stage) => (stage.name === changed.name ? changed : stage)) : [...record.stages, changed],
  };
}
