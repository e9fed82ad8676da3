import type { V1Pod } from '@kubernetes/client-node';
import { WindlassError } from '../errors.ts';
import { type JudgeInput, judgePod, type PodJudgement } from '../kubernetes/pod-failure.ts';
import { longestWaitMs } from './exit.ts';
import { resumes } from './resume.ts';
import type { StageContext, StageOutcome } from './stage.ts';

export type Running = Extract<PodJudgement, { kind: 'running' }> & { readonly node: string; readonly ip: string };
export type Waiting = Extract<PodJudgement, { kind: 'waiting' }> & { readonly missingAgent: boolean };

/**
 * What the recorded Pod is doing, by the shared watch; a GET decides when the watch has not seen it (yet, or any more).
 * A failed Pod throws its code with the evidence of the table, read before anything is deleted.
 */
export async function judge(context: StageContext): Promise<Running | Waiting> {
  const recorded = context.record().pod;
  if (recorded === null) throw new WindlassError('invariant_broken', 'There is no recorded Pod to look at.');
  const pod = await current(context, recorded.name, recorded.uid);
  if (pod === undefined)
    throw new WindlassError('pod_disrupted', 'The Pod was removed by somebody else.', {
      evidence: { pod: recorded.name, uid: recorded.uid },
    });
  const verdict = await withClaim(context, pod, judgePod(judgement(context, pod)));
  if (verdict.kind === 'failed')
    throw new WindlassError(verdict.code, verdict.message, { evidence: await withLog(context, recorded.name, verdict.evidence) });
  if (verdict.kind === 'running') return { ...verdict, node: pod.spec?.nodeName ?? '', ip: pod.status?.podIP ?? '' };
  return { ...verdict, missingAgent: /windlass-agent-[0-9a-f]+" not found/.test(verdict.message) };
}

/** Before it has a node, a Pod that waits for its volume cannot say why: its claim does, which no watch follows. */
async function withClaim(context: StageContext, pod: V1Pod, verdict: PodJudgement): Promise<PodJudgement> {
  const { claimUid } = context.record().workspace ?? { claimUid: '' };
  const storage =
    verdict.kind === 'waiting' ? verdict.reason === 'storage' : verdict.kind === 'failed' && verdict.evidence.phase === 'storage';
  if (!storage || pod.spec?.nodeName || claimUid === '') return verdict;
  const claimEvents = await context.cluster.events(claimUid, { signal: AbortSignal.timeout(5000) });
  return judgePod({ ...judgement(context, pod), claimEvents });
}

function judgement(context: StageContext, pod: V1Pod): JudgeInput {
  const { cluster, profile } = context;
  const now = Date.now() + cluster.clockSkewMs();
  const events = cluster.pods.eventsOf(pod.metadata?.uid ?? '');
  return { pod, mainContainer: profile.mainContainer, events, now, budgets: profile.budgets, since: runBegan(context, now) };
}

/** A Pod that is taken up again has a history: only what happens in this run counts for it. Server ms. */
function runBegan(context: StageContext, now: number): number {
  const record = context.record();
  const first = record.stages[0]?.startedAt;
  return resumes(record) && first !== undefined ? now - Math.max(0, context.now() - first) : 0;
}

async function current(context: StageContext, name: string, uid: string): Promise<V1Pod | undefined> {
  const cached = context.cluster.pods.get(name);
  if (cached?.metadata?.uid === uid) return cached;
  const read = await context.cluster.read('pods', name, { signal: context.stageSignal, instance: name });
  return read?.metadata?.uid === uid ? read : undefined;
}

/** A log that cannot be read must not hide the failure it was to explain. */
async function withLog(context: StageContext, name: string, evidence: Record<string, unknown>): Promise<Record<string, unknown>> {
  try {
    const log = await context.cluster.logTail(name, {
      container: context.profile.mainContainer,
      tailLines: 20,
      limitBytes: 4096,
      signal: AbortSignal.timeout(5000),
    });
    return log === '' ? evidence : { ...evidence, log };
  } catch (error) {
    return { ...evidence, log: `could not be read: ${error instanceof Error ? error.message : String(error)}` };
  }
}

/** A wait that ends when the Pod is judged differently, or when the next grace or budget runs out. */
export function waitOutcome(context: StageContext, verdict: Waiting): Extract<StageOutcome, { kind: 'wait' }> {
  const until =
    verdict.recheckAt === undefined ? longestWaitMs : verdict.recheckAt - (Date.now() + context.cluster.clockSkewMs());
  return {
    kind: 'wait',
    reason: verdict.reason,
    message: verdict.message,
    delayMs: Math.max(200, Math.min(until, longestWaitMs)),
    ready: async () => {
      const recorded = context.record().pod;
      const seen = recorded ? context.cluster.pods.get(recorded.name) : undefined;
      if (seen === undefined) return false;
      return waitsFor(judgePod(judgement(context, seen))) !== verdict.reason;
    },
  };
}

/** A main container that runs and has not passed its startup probe is still preparing: no news for who waits for that. */
function waitsFor(verdict: PodJudgement): Waiting['reason'] | undefined {
  if (verdict.kind === 'waiting') return verdict.reason;
  return verdict.kind === 'running' && !verdict.started ? 'preparing' : undefined;
}
