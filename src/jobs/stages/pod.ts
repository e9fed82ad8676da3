import { WindlassError } from '../../errors.ts';
import { comparePod } from '../../kubernetes/admission.ts';
import { composePod } from '../../kubernetes/compose.ts';
import { ensureAgent } from '../agent-config.ts';
import { composedAgent } from '../agent-program.ts';
import { composeInput } from '../compose-input.ts';
import { createOrAdopt } from '../create.ts';
import { judge, waitOutcome } from '../pod-judge.ts';
import { removeByUid } from '../remove.ts';
import { rebuilds, resumes } from '../resume.ts';
import { ensureSnapshotMap, readSnapshot } from '../snapshots.ts';
import type { Stage, StageContext } from '../stage.ts';
import { noteFound, runningSet, takeUp } from '../take-up.ts';

/** The Pod, from composed to "main container runs". The waits between cost nothing: the shared watch wakes the job. */
export const pod: Stage = {
  name: 'pod',
  budget: (profile) => profile.budgets.total,

  async apply(context) {
    if (resumes(context.record()) && !rebuilds(context.record())) {
      const waiting = await takeUp(context);
      if (waiting !== undefined) return waiting;
    }
    if (context.record().pod === null) {
      const waiting = await createPod(context);
      if (waiting !== undefined) return waiting;
    }
    const verdict = await judge(context);
    if (verdict.kind === 'waiting') {
      if (verdict.missingAgent) await ensureAgent(context, 'again');
      return waitOutcome(context, verdict);
    }
    const recorded = context.record().pod;
    if (recorded === null) throw new WindlassError('invariant_broken', 'A Pod runs that the record does not have.');
    if (!resumes(context.record()) || rebuilds(context.record()))
      return { kind: 'done', write: { set: runningSet(context, recorded, verdict) } };
    await noteFound(context, recorded, verdict);
    return { kind: 'done' };
  },

  async remove(context) {
    const recorded = context.record().pod;
    const intent = context.record().creates.pods;
    const generation = recorded?.createdByGeneration ?? intent?.generation;
    const run = recorded === null || intent?.uid === recorded.uid ? intent?.run : undefined;
    if (generation === undefined || !context.takes(generation, run)) return { kind: 'gone' };
    const outcome = await removeByUid(context, 'pods');
    return outcome.kind === 'gone' ? { kind: 'gone', set: { ...outcome.set, pod: null, agent: null, restartCount: 0 } } : outcome;
  },
};

/** Before the Pod that is made from it: whoever finds the Pod again finds its recipe too (design §7). */
async function keepSnapshot(context: StageContext): Promise<void> {
  const { snapshot } = context.record();
  const stored = await readSnapshot(context.shelf, snapshot);
  if (stored !== undefined) await ensureSnapshotMap(context.cluster, context.config.installation, snapshot, stored);
}

async function createPod(context: StageContext) {
  await Promise.all([ensureAgent(context, 'once'), keepSnapshot(context)]);
  const wanted = composePod(composeInput(context, 'pods', await composedAgent(context)));
  const generation = context.record().generation;
  const created = await createOrAdopt(context, {
    kind: 'pods',
    wanted,
    created: (object) => ({
      checkpoint: 'pod_created',
      set: {
        pod: {
          name: object.metadata?.name ?? '',
          uid: object.metadata?.uid ?? '',
          node: '',
          ip: '',
          createdByGeneration: generation,
        },
      },
    }),
  });
  if (created.kind === 'wait') return created;
  const issues = comparePod(wanted, created.object);
  if (issues.length > 0) throw new WindlassError('admission_mismatch', undefined, { issues, evidence: { issues } });
  await context.save({}, 'pod_admitted');
  return undefined;
}
