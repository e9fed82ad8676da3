import { randomBytes } from 'node:crypto';
import type { LoadedConfig } from '../config/load.ts';
import { type Issue, WindlassError } from '../errors.ts';
import { composedAgent } from '../jobs/agent-program.ts';
import type { Recipe } from '../jobs/recipes.ts';
import { claimProblem } from '../jobs/stages/workspace.ts';
import { compareClaim, comparePod } from '../kubernetes/admission.ts';
import { type ComposeInput, composeClaim, composePod } from '../kubernetes/compose.ts';
import type { Cluster } from '../kubernetes/port.ts';
import { claimName, instanceHash } from '../names.ts';
import type { Perform } from './doctor.ts';

/** What doctor tries with one profile on one cluster: objects as a launch would make them, of an instance that nobody has. */
export interface Trial {
  readonly loaded: LoadedConfig;
  readonly cluster: Cluster;
  readonly recipe: Recipe;
  readonly input: ComposeInput;
  /** Ends every key of its checks: `<cluster>.<profile>`. */
  readonly at: string;
}

/** Labelled like any instance of ours, without a record: should doctor die, the orphans sweep knows what it left. */
export async function createTrial(loaded: LoadedConfig, cluster: Cluster, recipe: Recipe): Promise<Trial> {
  const { config, dir } = loaded;
  const { installation } = config;
  const instanceId = `doctor-${randomBytes(8).toString('hex')}`;
  const hash = instanceHash(installation, instanceId);
  const { profile, template, name } = recipe;
  const { workspace } = profile;
  const claims = { managed_pvc: claimName(hash), existing_claim: workspace.mode === 'existing_claim' && workspace.claimName };
  const input: ComposeInput = {
    identity: { installation, instanceId, hash, owner: 'doctor', cluster: cluster.name, profile: name },
    namespace: cluster.namespace,
    generation: Date.now(),
    nonce: randomBytes(32).toString('hex'),
    profile,
    template,
    workspaceClaim: workspace.mode === 'empty_dir' ? undefined : claims[workspace.mode] || undefined,
    agent: await composedAgent({ config, profile, dir }),
    prepares: false,
  };
  return { loaded, cluster, recipe, input, at: `${cluster.name}.${name}` };
}

/** Storage and admission, by dry runs: nothing is made. Answers whether the cluster takes what the profile composes. */
export async function examineProfile(trial: Trial, perform: Perform): Promise<boolean> {
  const { at, recipe } = trial;
  const { workspace } = recipe.profile;
  const stored = await perform(`storage.${at}`, async () => {
    if (workspace.mode === 'empty_dir')
      return `empty_dir${workspace.sizeLimit ? ` of ${workspace.sizeLimit}` : ''}: goes with its Pod`;
    if (workspace.mode === 'existing_claim') return tryExistingClaim(trial.cluster, workspace.claimName);
    const place = workspace.storageClass === '' ? "the cluster's default class" : `class ${workspace.storageClass}`;
    return `${workspace.size} of ${place}, ${workspace.accessModes.join(', ')}; only --live shows that it can be had`;
  });
  const claimed =
    workspace.mode !== 'managed_pvc' ||
    (await perform(`admission.claim.${at}`, async () => {
      const wanted = composeClaim(trial.input);
      const admitted = await trial.cluster.create('persistentvolumeclaims', wanted, { dryRun: true });
      return admittedAs(compareClaim(wanted, admitted));
    }));
  const placed = await perform(`admission.pod.${at}`, async () => {
    const wanted = composePod(trial.input);
    const admitted = await trial.cluster.create('pods', wanted, { dryRun: true });
    if (!admitted.metadata?.uid) throw new WindlassError('admission_mismatch', 'The dry run was answered without a UID.');
    return admittedAs(comparePod(wanted, admitted));
  });
  return stored && claimed && placed;
}

function admittedAs(issues: readonly Issue[]): string {
  if (issues.length > 0) throw new WindlassError('admission_mismatch', undefined, { issues });
  return 'admitted as asked for (dry run)';
}

async function tryExistingClaim(cluster: Cluster, name: string): Promise<string> {
  const claim = await cluster.read('persistentvolumeclaims', name);
  const problem = claimProblem(claim);
  if (problem !== undefined) throw new WindlassError('storage_failed', `The claim ${name} cannot be used: ${problem}.`);
  return `the claim ${name} is ${claim?.status?.phase ?? 'there'}`;
}
