import type { LoadedConfig } from '../config/load.ts';
import { asWindlassError, type Issue, WindlassError } from '../errors.ts';
import type { Recipe } from '../jobs/recipes.ts';

/**
 * What the configuration's own text cannot show: kubeconfigs and Pod templates. Only for verbs that use the cluster or
 * that were asked to check, since it opens files that callers need not be able to read.
 */
async function deepIssues(loaded: LoadedConfig): Promise<Issue[]> {
  return [...(await clusterIssues(loaded)), ...(await recipeIssues(loaded))];
}

async function clusterIssues(loaded: LoadedConfig): Promise<Issue[]> {
  const { checkClusterConfig } = await import('../kubernetes/clusters.ts');
  const found = await Promise.all(
    Object.entries(loaded.config.clusters).map(([name, config]) => checkClusterConfig(name, config, loaded.dir)),
  );
  return found.flat();
}

export async function recipesOf(loaded: LoadedConfig): Promise<readonly Recipe[]> {
  const { createRecipes } = await import('../jobs/recipes.ts');
  return createRecipes(loaded.config, loaded.templates).all();
}

export async function recipeIssues(loaded: LoadedConfig): Promise<Issue[]> {
  try {
    await recipesOf(loaded);
    return [];
  } catch (error) {
    const failure = asWindlassError(error);
    if (failure.issues.length === 0) throw error;
    return [...failure.issues];
  }
}

/** Throws `config_invalid` unless every cluster's connection and every template is usable. */
export async function checkClusters(loaded: LoadedConfig): Promise<void> {
  const issues = await deepIssues(loaded);
  if (issues.length === 0) return;
  const count = issues.length === 1 ? '1 problem' : `${issues.length} problems`;
  throw new WindlassError('config_invalid', `The configuration ${loaded.file} is not usable (${count}).`, { issues });
}
