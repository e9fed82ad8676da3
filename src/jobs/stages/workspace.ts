import type { V1PersistentVolumeClaim } from '@kubernetes/client-node';
import { WindlassError } from '../../errors.ts';
import type { WorkspaceRecord } from '../../inventory/types.ts';
import { compareClaim } from '../../kubernetes/admission.ts';
import { composeClaim } from '../../kubernetes/compose.ts';
import { claimName } from '../../names.ts';
import { composeInput } from '../compose-input.ts';
import { createOrAdopt } from '../create.ts';
import { removeByUid } from '../remove.ts';
import { resumes } from '../resume.ts';
import { retainClaim } from '../retain.ts';
import type { RemoveContext, RemoveOutcome, Stage, StageContext, StageOutcome } from '../stage.ts';

/** Where the work lives. Never waits for Bound and never reads StorageClasses: most classes bind at the first Pod. */
export const workspace: Stage = {
  name: 'workspace',
  budget: (profile) => profile.budgets.storage,

  async apply(context) {
    const wanted = context.profile.workspace;
    const recorded = context.record().workspace;
    if (recorded?.claimUid && resumes(context.record())) return retainedClaim(context, recorded);
    if (wanted.mode === 'empty_dir')
      return done({ mode: 'empty_dir', claimName: '', claimUid: '', created: false, createdByGeneration: 0 });
    if (wanted.mode === 'existing_claim') return existingClaim(context, wanted.claimName);
    if (recorded?.claimUid && recorded.createdByGeneration !== context.record().generation)
      return retainedClaim(context, recorded);
    return managedClaim(context);
  },

  async remove(context) {
    const recorded = context.record().workspace;
    const intent = context.record().creates.persistentvolumeclaims;
    if (context.keepWorkspace && recorded?.claimUid) return keepClaim(context, recorded);
    if (recorded !== null && recorded.mode !== 'managed_pvc') return { kind: 'gone', set: { workspace: null } };
    const generation = recorded?.createdByGeneration ?? intent?.generation;
    if (generation === undefined || !context.takes(generation)) return { kind: 'gone' };
    const outcome = await removeByUid(context, 'persistentvolumeclaims');
    return outcome.kind === 'gone' ? { kind: 'gone', set: { ...outcome.set, workspace: null } } : outcome;
  },
};

const done = (record: WorkspaceRecord): StageOutcome => ({ kind: 'done', write: { set: { workspace: record } } });

async function managedClaim(context: StageContext): Promise<StageOutcome> {
  const wanted = composeClaim(composeInput(context, 'persistentvolumeclaims', undefined));
  const generation = context.record().generation;
  const created = await createOrAdopt(context, {
    kind: 'persistentvolumeclaims',
    wanted,
    created: (claim) => ({
      checkpoint: 'pvc_created',
      set: {
        workspace: {
          mode: 'managed_pvc',
          claimName: claimName(context.record().hash),
          claimUid: claim.metadata?.uid ?? '',
          created: true,
          createdByGeneration: generation,
        },
      },
    }),
  });
  if (created.kind === 'wait') return created;
  const issues = compareClaim(wanted, created.object);
  if (issues.length > 0) throw new WindlassError('admission_mismatch', undefined, { issues, evidence: { issues } });
  await context.save({}, 'pvc_admitted');
  return { kind: 'done' };
}

/** A claim that a keepWorkspace teardown, a lost Pod or a reconnect found: the same UID, or nothing. */
async function retainedClaim(context: StageContext, recorded: WorkspaceRecord): Promise<StageOutcome> {
  const claim = await context.cluster.read('persistentvolumeclaims', recorded.claimName, { signal: context.stageSignal });
  if (claim?.metadata?.uid !== recorded.claimUid || claim.metadata.deletionTimestamp) {
    throw new WindlassError('unrecoverable', 'The kept workspace volume is gone from the cluster.', {
      evidence: { claim: recorded.claimName, uid: recorded.claimUid, found: claim?.metadata?.uid ?? 'nothing' },
      hint: 'Tear the instance down, then launch it again with an empty workspace.',
    });
  }
  return { kind: 'done' };
}

async function existingClaim(context: StageContext, name: string): Promise<StageOutcome> {
  const claim = await context.cluster.read('persistentvolumeclaims', name, { signal: context.stageSignal });
  const problem = claimProblem(claim);
  if (claim === undefined || problem !== undefined) {
    throw new WindlassError('storage_failed', `The claim ${name} cannot be used: ${problem ?? 'it does not exist'}.`, {
      evidence: { claim: name },
    });
  }
  return done({
    mode: 'existing_claim',
    claimName: name,
    claimUid: claim.metadata?.uid ?? '',
    created: false,
    createdByGeneration: 0,
  });
}

/** Why somebody's claim cannot be worked on; undefined = it can. */
export function claimProblem(claim: V1PersistentVolumeClaim | undefined): string | undefined {
  if (!claim?.metadata?.uid) return 'it does not exist';
  if (claim.metadata.deletionTimestamp) return 'it is being deleted';
  if (claim.status?.phase === 'Lost') return 'its volume is lost';
  const writable = (claim.spec?.accessModes ?? []).some((mode) => mode !== 'ReadOnlyMany');
  return writable ? undefined : 'none of its access modes is writable';
}

/** Marks the claim, so that sweeps and recovery know that it is kept on purpose. */
async function keepClaim(context: RemoveContext, recorded: WorkspaceRecord): Promise<RemoveOutcome> {
  if (!recorded.created) return { kind: 'gone' };
  const claim = await context.cluster.read('persistentvolumeclaims', recorded.claimName, { signal: context.signal });
  if (claim?.metadata?.uid !== recorded.claimUid) return { kind: 'gone', set: { workspace: null } };
  await retainClaim(context.cluster, { workspace: recorded }, context.lease.assertHeld, context.signal);
  return { kind: 'gone' };
}
