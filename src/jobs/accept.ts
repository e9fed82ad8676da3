import { WindlassError } from '../errors.ts';
import type { InstanceRecord, StageRecord } from '../inventory/types.ts';
import type { JobContext } from './context.ts';
import { createIntent } from './create-intent.ts';
import { imageIssues } from './images.ts';
import { planOf } from './plan.ts';
import { openSnapshot, policyIssues, type Recipe, recipeHashes, takeSnapshot } from './recipes.ts';
import { resumes } from './resume.ts';
import { readSnapshot, shelveSnapshot } from './snapshots.ts';

/**
 * What a generation is accepted with, computed once: the recipe from this consumer's own configuration (I2), where it
 * goes, and all create intents with their nonces (I3). Empty when the generation was accepted before.
 */
export async function acceptGeneration(context: JobContext, record: InstanceRecord): Promise<Partial<InstanceRecord>> {
  if (acceptedAlready(record)) return {};
  const recipe = record.app === '' ? context.recipes.find('profile', record.profile) : context.recipes.find('app', record.app);
  const cluster = context.clusters.get(record.cluster);
  assertAllowed(context, recipe);
  const snapshot = takeSnapshot(recipe);
  await shelveSnapshot(context.shelf, snapshot.hash, { text: snapshot.text, mac: context.keyring.mac(snapshot.text) });
  return {
    namespace: cluster.namespace,
    snapshot: snapshot.hash,
    hashes: recipeHashes(recipe, cluster.configHash),
    creates: intents(context, record, recipe),
    stages: planOf(recipe.profile).map((stage): StageRecord => ({ name: stage.name, state: 'pending' })),
  };
}

/**
 * The pod intent carries the generation that accepted it; a stage list alone may be an older generation's. What was ready
 * once is rebuilt from the recipe that it was accepted with, whatever became of its Pod's intent; and what is rolled back
 * was accepted, though its intents are closed by now: a profile that is gone since must not hide why it failed (I15).
 */
const acceptedAlready = (record: InstanceRecord) =>
  record.state === 'rolling_back' ||
  (record.snapshot !== '' && (resumes(record) || record.creates.pods?.generation === record.generation));

function intents(context: JobContext, record: InstanceRecord, recipe: Recipe): InstanceRecord['creates'] {
  const kept = record.creates.persistentvolumeclaims ?? createIntent(context, record, 'persistentvolumeclaims');
  const managed = recipe.profile.workspace.mode === 'managed_pvc';
  return { pods: createIntent(context, record, 'pods'), ...(managed ? { persistentvolumeclaims: kept } : {}) };
}

/** The recorded recipe, its MAC verified and today's policy asked again, on every start (I2). */
export async function openRecorded(context: JobContext, record: InstanceRecord): Promise<Recipe> {
  const stored = await readSnapshot(context.shelf, record.snapshot);
  if (stored === undefined || !context.keyring.verifyMac(stored.text, stored.mac)) {
    throw new WindlassError('snapshot_rejected', 'The recorded recipe of this instance is missing or was changed.', {
      evidence: { snapshot: record.snapshot },
    });
  }
  const recipe = openSnapshot(stored.text);
  assertAllowed(context, recipe);
  return recipe;
}

function assertAllowed(context: JobContext, recipe: Recipe): void {
  const images = imageIssues(recipe, context.config.images);
  if (images.length > 0)
    throw new WindlassError('image_not_allowed', undefined, { issues: images, evidence: { issues: images } });
  const unsafe = policyIssues(recipe);
  if (unsafe.length > 0)
    throw new WindlassError('snapshot_rejected', undefined, { issues: unsafe, evidence: { issues: unsafe } });
}
