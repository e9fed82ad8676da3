import type { Command } from 'commander';
import type { LoadedConfig } from '../config/load.ts';
import { asWindlassError, type ErrorBody, errorBody, WindlassError } from '../errors.ts';
import type { Recipe } from '../jobs/recipes.ts';
import { type Context, usage, verb } from './context.ts';
import type { Trial } from './doctor-profile.ts';
import { interruptible } from './interrupt.ts';
import { clean, paint } from './output.ts';

export interface Check {
  readonly key: string;
  readonly success: boolean;
  readonly durationMs: number;
  readonly detail: string;
  readonly error: ErrorBody | null;
}
/** Runs one check: `run` answers the detail, or throws. Answers whether it passed. */
export type Perform = (key: string, run: () => Promise<string>) => Promise<boolean>;

interface DoctorOptions {
  readonly cluster?: string;
  readonly profile?: string;
  readonly live?: boolean;
}

export function doctor(program: Command): void {
  const command = program
    .command('doctor')
    .description('check configuration, Redis, keys, and what the clusters allow; makes nothing, unless with --live')
    .option('--cluster <name>', 'only this cluster')
    .option('--profile <name>', 'only this profile or app')
    .option('--live', 'run a disposable instance of that profile (else of the first one) on each cluster, and remove it');
  verb<DoctorOptions>(command, async (context, options) => {
    const interrupt = interruptible();
    const { checks, failures, perform } = collector();
    try {
      await examine(context, options, perform, interrupt.signal);
    } catch (error) {
      if (!interrupt.signal.aborted) throw error;
    } finally {
      interrupt.dispose();
    }
    await context.out.show({ document: { success: failures.length === 0, checks }, text: () => checks.map(line).join('\n') });
    if (interrupt.signal.aborted) return 130;
    // A wrong configuration explains the rest, so its exit code wins.
    return (failures.find((error) => error.row.exit === 2) ?? failures[0])?.row.exit ?? 0;
  });
}

function collector() {
  const checks: Check[] = [];
  const failures: WindlassError[] = [];
  const perform: Perform = async (key, run) => {
    const started = performance.now();
    const { detail, error } = await run().then(
      (text) => ({ detail: text, error: undefined }),
      (thrown: unknown) => ({ detail: '', error: asWindlassError(thrown) }),
    );
    const durationMs = Math.round(performance.now() - started);
    checks.push({ key, success: error === undefined, durationMs, detail, error: error ? errorBody(error) : null });
    if (error) failures.push(error);
    return error === undefined;
  };
  return { checks, failures, perform };
}

async function examine(context: Context, options: DoctorOptions, perform: Perform, signal: AbortSignal): Promise<void> {
  let loaded: LoadedConfig | undefined;
  await perform('config', async () => {
    loaded = await context.load();
    return loaded.file;
  });
  if (!loaded) return;
  const known = loaded;
  const clusters = chosen('--cluster', Object.keys(known.config.clusters), options.cluster);
  const names = [...Object.keys(known.config.profiles), ...Object.keys(known.config.apps)];
  const profiles = chosen('--profile', names, options.profile);
  let recipes: readonly Recipe[] = [];
  await perform('recipes', async () => {
    const { recipeIssues, recipesOf } = await import('./checks.ts');
    refuseIssues(known, await recipeIssues(known));
    recipes = (await recipesOf(known)).filter(({ name }) => profiles.includes(name));
    return names.join(', ');
  });
  const { examineRedis } = await import('./doctor-redis.ts');
  const redis = await examineRedis(known, perform);
  const { examineCluster } = await import('./doctor-cluster.ts');
  const live = options.live === true && redis ? (trial: Trial) => runLive(context, trial, perform, signal) : undefined;
  for (const cluster of clusters) await examineCluster({ loaded: known, recipes, live }, cluster, perform);
}

function chosen(option: string, names: readonly string[], only: string | undefined): readonly string[] {
  if (only === undefined) return names;
  if (!names.includes(only)) throw usage(option, `must be one of ${names.join(', ')}, not "${only}"`);
  return [only];
}

/** Under the lease of its name: a sweep that passes meanwhile leaves it alone, and takes it once doctor is gone. */
async function runLive(context: Context, trial: Trial, perform: Perform, signal: AbortSignal): Promise<void> {
  signal.throwIfAborted();
  const { tryLive } = await import('./doctor-live.ts');
  await context.withCaller(async ({ inventory }) => {
    const lease = await inventory.tryLease(trial.input.identity.hash);
    try {
      await tryLive(trial, { perform, say: (text) => context.out.say(clean(text)), signal });
    } finally {
      await lease?.release();
    }
  });
}

function refuseIssues(loaded: LoadedConfig, issues: ErrorBody['issues']): void {
  if (issues.length > 0) throw new WindlassError('config_invalid', `The configuration ${loaded.file} is not usable.`, { issues });
}

function line(check: Check): string {
  const mark = check.success ? paint('green', 'ok    ', process.stdout) : paint('red', 'FAILED', process.stdout);
  const issues = (check.error?.issues ?? []).map((issue) => `\n          ${issue.path}: ${issue.message}`).join('');
  const text = check.error ? `${check.error.message}${issues}\n          Hint: ${check.error.hint}` : check.detail;
  return `${mark}  ${check.key}  ${text.split('\n').map(clean).join('\n')}`;
}
