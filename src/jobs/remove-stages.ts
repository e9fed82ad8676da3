import { asWindlassError, type WindlassError } from '../errors.ts';
import type { HeldJob } from './bench.ts';
import { instanceKey } from './context.ts';
import type { WaitExit } from './exit.ts';
import { allStages } from './plan.ts';
import type { RemoveContext, RemoveOutcome, Stage } from './stage.ts';

/** One budget per step (I14): a slow Pod must not eat the time of the claim behind it. */
const stepMs = 60_000;

export type Removal =
  | { readonly kind: 'done'; readonly errors: readonly WindlassError[] }
  | { readonly kind: 'wait'; readonly exit: WaitExit }
  | { readonly kind: 'yielded'; readonly error: WindlassError };

export type RemovalScope = Pick<RemoveContext, 'takes' | 'keepWorkspace' | 'force'>;

/**
 * The stages backwards. A step whose removal fails ends the walk: what comes before it in the plan may be in use by what
 * could not be removed (a claim by its Pod), and the whole removal is tried again.
 */
export async function removeStages(job: HeldJob, scope: RemovalScope, stages: readonly Stage[] = allStages): Promise<Removal> {
  for (const stage of [...stages].reverse()) {
    if (stage.remove === undefined) continue;
    try {
      const outcome = await removeStage(job, stage, scope);
      if (outcome.kind === 'wait') return { kind: 'wait', exit: await waitFor(job, outcome) };
      if (outcome.set !== undefined) await job.write({ set: outcome.set });
    } catch (thrown) {
      const error = job.lease.signal.aborted ? asWindlassError(job.lease.signal.reason) : asWindlassError(thrown);
      if (error.row.disposition === 'yielded') return { kind: 'yielded', error };
      return { kind: 'done', errors: [error] };
    }
  }
  return { kind: 'done', errors: [] };
}

async function removeStage(job: HeldJob, stage: Stage, scope: RemovalScope): Promise<RemoveOutcome> {
  const signal = AbortSignal.any([job.lease.signal, AbortSignal.timeout(stepMs)]);
  const save: RemoveContext['save'] = async (options) => void (await job.write(options));
  return (await stage.remove?.({ ...job, ...scope, save, signal })) ?? { kind: 'gone' };
}

async function waitFor(job: HeldJob, outcome: Extract<RemoveOutcome, { kind: 'wait' }>): Promise<WaitExit> {
  const keys = [instanceKey(job.record())];
  const ticket = await job.write({ waitOn: { job: job.job, keys }, release: true });
  return { kind: 'wait', reason: 'removing', delayMs: outcome.delayMs, keys, ticket, ready: outcome.ready };
}
