import type { Command } from 'commander';
import type { LoadedConfig } from '../config/load.ts';
import { asWindlassError, type ErrorBody, errorBody, WindlassError } from '../errors.ts';
import { type Context, usage, verb } from './context.ts';
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

export function doctor(program: Command): void {
  const command = program
    .command('doctor')
    .description('check configuration, Redis, keys, and what the clusters allow')
    .option('--cluster <name>', 'only this cluster');
  verb<{ cluster?: string }>(command, async (context, options) => {
    const checks: Check[] = [];
    const failures: WindlassError[] = [];
    await examine(context, options.cluster, async (key, run) => {
      const started = performance.now();
      const result = await run().then(
        (detail) => ({ detail, error: undefined }),
        (error: unknown) => ({ detail: '', error: asWindlassError(error) }),
      );
      const { detail, error } = result;
      checks.push({
        key,
        success: error === undefined,
        durationMs: Math.round(performance.now() - started),
        detail,
        error: error ? errorBody(error) : null,
      });
      if (error) failures.push(error);
      return error === undefined;
    });
    await context.out.show({ document: { success: failures.length === 0, checks }, text: () => checks.map(line).join('\n') });
    // A wrong configuration explains the rest, so its exit code wins.
    return (failures.find((error) => error.row.exit === 2) ?? failures[0])?.row.exit ?? 0;
  });
}

async function examine(context: Context, only: string | undefined, perform: Perform): Promise<void> {
  let loaded: LoadedConfig | undefined;
  await perform('config', async () => {
    loaded = await context.load();
    return loaded.file;
  });
  if (!loaded) return;
  const known = loaded;
  const names = Object.keys(known.config.clusters);
  if (only !== undefined && !names.includes(only)) throw usage('--cluster', `must be one of ${names.join(', ')}, not "${only}"`);
  await perform('recipes', async () => {
    const { recipeIssues } = await import('./checks.ts');
    refuseIssues(known, await recipeIssues(known));
    return [...Object.keys(known.config.profiles), ...Object.keys(known.config.apps)].join(', ');
  });
  await examineRedis(known, perform);
  const { examineCluster } = await import('./doctor-cluster.ts');
  for (const name of only === undefined ? names : [only]) await examineCluster(known, name, perform);
}

function refuseIssues(loaded: LoadedConfig, issues: ErrorBody['issues']): void {
  if (issues.length > 0) throw new WindlassError('config_invalid', `The configuration ${loaded.file} is not usable.`, { issues });
}

const mebibytes = (bytes: number): string => `${Math.round(bytes / 2 ** 20)} MiB`;

async function examineRedis(loaded: LoadedConfig, perform: Perform): Promise<void> {
  const reachable = await perform('redis', async () => {
    const { redisFactsOf } = await import('./redis.ts');
    const facts = await redisFactsOf(loaded);
    const kept =
      facts.persistence === 'none'
        ? 'no persistence: a restart of Redis loses every record until `recover`'
        : `persistence ${facts.persistence}`;
    return `version ${facts.version}, ${facts.evictionPolicy}, ${kept}, ${mebibytes(facts.used)} of ${facts.maxmemory > 0 ? mebibytes(facts.maxmemory) : 'no limit'}`;
  });
  await perform('keys', async () => {
    const { createKeyring } = await import('../inventory/secrets.ts');
    const { sealing, atRest } = loaded.config.secrets;
    createKeyring(loaded.config.secrets, loaded.env, loaded.config.installation);
    const there = `${sealing.length} sealing, ${atRest.length} at rest`;
    if (!reachable) return `${there}; Redis was not asked`;
    const { storedSecrets } = await import('./keys.ts');
    const stored = await storedSecrets(loaded);
    if (stored.error) throw stored.error;
    return `${there}; they open what Redis holds`;
  });
}

function line(check: Check): string {
  const mark = check.success ? paint('green', 'ok    ', process.stdout) : paint('red', 'FAILED', process.stdout);
  const issues = (check.error?.issues ?? []).map((issue) => `\n          ${issue.path}: ${issue.message}`).join('');
  const text = check.error ? `${check.error.message}${issues}\n          Hint: ${check.error.hint}` : check.detail;
  return `${mark}  ${check.key}  ${text.split('\n').map(clean).join('\n')}`;
}
