import { readFile } from 'node:fs/promises';
import { dirname, join, resolve } from 'node:path';
import { z } from 'zod';
import { type Issue, WindlassError } from '../errors.ts';
import { crossIssues, tokenIssues } from './cross-checks.ts';
import { overrideVariables, readEnvFile, shellEnv } from './environment.ts';
import { configIssues } from './issues.ts';
import { applyOverrides } from './overrides.ts';
import { isTree, list, tree } from './raw.ts';
import { type Config, configSchema, tokenSchema } from './schema.ts';
import { parseYaml } from './yaml.ts';

/** A valid configuration and what belongs to its file. */
export interface LoadedConfig {
  readonly config: Config;
  /** Absolute path of the file. */
  readonly file: string;
  /** Its folder: what relative paths in it are relative to. */
  readonly dir: string;
  /** A variable that the configuration names: from the shell, else from `windlass.env` beside the file. */
  env(name: string): string | undefined;
  /** Raw text of each profile's PodTemplate, from `podTemplate` or `podTemplateFile`. */
  readonly templates: Readonly<Record<string, string>>;
}

export type Token = Config['http']['tokens'][number];

const maxConfigBytes = 1 << 20;
/** The whole template has to fit, compressed or not, into an object of the cluster. */
const maxTemplateBytes = 256 * 1024;

/**
 * Reads, overlays and checks the configuration: `file`, else `$WINDLASS_CONFIG`, else `./windlass.yaml`.
 * Throws `config_invalid` with every issue at once. Opens no kubeconfig and no connection.
 */
export async function loadConfig(options: { readonly file?: string; readonly cwd?: string } = {}): Promise<LoadedConfig> {
  const file = resolve(options.cwd ?? process.cwd(), options.file ?? shellEnv('WINDLASS_CONFIG') ?? 'windlass.yaml');
  const dir = dirname(file);
  const parsed = parseYaml(await readConfigFile(file), file);
  if (parsed.issues) throw invalid(file, parsed.issues);
  if (!isTree(parsed.value))
    throw invalid(file, [{ path: '', message: 'must be a map of settings (see `windlass schema config`)' }]);
  const { value, issues } = applyOverrides(parsed.value, overrideVariables());
  const result = configSchema.safeParse(value);
  const { templates, issues: templateIssues } = await readTemplates(value, dir);
  const all = [...issues, ...(result.success ? [] : configIssues(result.error, value)), ...crossIssues(value), ...templateIssues];
  if (!result.success || all.length > 0) throw invalid(file, all);
  const fromFile = await readEnvFile(join(dir, 'windlass.env')).catch((error: unknown) => {
    throw invalid(file, [{ path: 'windlass.env', message: `cannot be read: ${reason(error)}` }]);
  });
  return { config: result.data, file, dir, templates, env: (name) => shellEnv(name) ?? (fromFile[name] || undefined) };
}

function invalid(file: string, issues: readonly Issue[]): WindlassError {
  const count = issues.length === 1 ? '1 problem' : `${issues.length} problems`;
  return new WindlassError('config_invalid', `The configuration ${file} is not valid (${count}).`, { issues });
}

async function readConfigFile(file: string): Promise<string> {
  try {
    const text = await readFile(file, 'utf8');
    if (text.length <= maxConfigBytes) return text;
  } catch (error) {
    const missing = (error as NodeJS.ErrnoException).code === 'ENOENT';
    throw new WindlassError(
      'config_invalid',
      missing ? `There is no configuration file ${file}.` : `The configuration file ${file} cannot be read: ${reason(error)}.`,
      {
        issues: [{ path: '', message: missing ? 'the file does not exist' : `the file cannot be read: ${reason(error)}` }],
        ...(missing ? { hint: '`windlass init` writes one; --config or $WINDLASS_CONFIG names another.' } : {}),
        cause: error,
      },
    );
  }
  throw invalid(file, [{ path: '', message: `the file is larger than ${maxConfigBytes} bytes` }]);
}

const reason = (error: unknown): string => (error as NodeJS.ErrnoException).code ?? (error as Error).message;

async function readTemplates(raw: unknown, dir: string): Promise<{ templates: Record<string, string>; issues: Issue[] }> {
  const templates: Record<string, string> = {};
  const issues: Issue[] = [];
  for (const [name, value] of Object.entries(tree(tree(raw).profiles))) {
    const { podTemplate, podTemplateFile } = tree(value);
    const path = `profiles.${name}.${podTemplateFile === undefined ? 'podTemplate' : 'podTemplateFile'}`;
    try {
      if (typeof podTemplateFile === 'string') templates[name] = await readFile(resolve(dir, podTemplateFile), 'utf8');
      else if (typeof podTemplate === 'string') templates[name] = podTemplate;
    } catch (error) {
      issues.push({ path, message: `cannot be read (${reason(error)}): ${resolve(dir, String(podTemplateFile))}` });
    }
    if (Buffer.byteLength(templates[name] ?? '') > maxTemplateBytes) issues.push({ path, message: 'must be at most 256 KiB' });
  }
  return { templates, issues };
}

/** The tokens of the configuration and of `http.tokensFile` (a YAML list of the same entries). */
export async function loadTokens(loaded: LoadedConfig): Promise<readonly Token[]> {
  const { tokens, tokensFile } = loaded.config.http;
  if (tokensFile === undefined) return tokens;
  const path = 'http.tokensFile';
  let text: string;
  try {
    text = await readFile(resolve(loaded.dir, tokensFile), 'utf8');
  } catch (error) {
    throw invalid(loaded.file, [{ path, message: `cannot be read (${reason(error)}): ${resolve(loaded.dir, tokensFile)}` }]);
  }
  const parsed = parseYaml(text, path);
  if (parsed.issues) throw invalid(loaded.file, parsed.issues);
  const result = z.array(tokenSchema).safeParse(parsed.value);
  const shape = result.success
    ? []
    : result.error.issues.map((issue) => ({ path: [path, ...issue.path].join('.'), message: issue.message }));
  const issues = [...shape, ...tokenIssues(path, [...list(parsed.value), ...tokens])];
  if (!result.success || issues.length > 0) throw invalid(loaded.file, issues);
  return [...tokens, ...result.data];
}
