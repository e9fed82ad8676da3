import { readFile } from 'node:fs/promises';
import { text as readAll } from 'node:stream/consumers';
import { shellEnv } from '../config/environment.ts';
import { isTree } from '../config/raw.ts';
import { parseYaml } from '../config/yaml.ts';
import { type Issue, refuse, WindlassError } from '../errors.ts';
import { usage } from './context.ts';
import { pair, setPath } from './values.ts';

/** A request as text is refused far above the 64 KiB that its JSON may have: YAML comments cost nothing. */
const maxText = 1 << 20;

/** The request from a file (`-` = stdin) with `--set` laid over it; `payload_invalid` names everything wrong at once. */
export async function readRequest(file: string | undefined, sets: readonly string[]): Promise<Record<string, unknown>> {
  if (file === undefined && sets.length === 0) throw usage('--file', 'give the request with -f FILE, -f - or --set');
  const root = file === undefined ? { version: 1 } : requestFrom(await readText(file), file === '-' ? 'stdin' : file);
  const issues: Issue[] = [];
  for (const set of sets) {
    const [path, text] = pair('--set', set);
    const parsed = parseYaml(text, `--set ${path}`);
    if (parsed.issues) issues.push(...parsed.issues);
    else setPath(root, path, parsed.value);
  }
  refuse('payload_invalid', 'The request is not valid', issues);
  return root;
}

async function readText(file: string): Promise<string> {
  if (file === '-') {
    if (process.stdin.isTTY) throw usage('--file', '- reads stdin, which is a terminal: pipe the request in');
    return readAll(process.stdin);
  }
  try {
    return await readFile(file, 'utf8');
  } catch (error) {
    throw usage('--file', `cannot be read: ${(error as Error).message}`);
  }
}

function requestFrom(text: string, source: string): Record<string, unknown> {
  if (text.length > maxText) throw new WindlassError('payload_too_large');
  const parsed = parseYaml(text, source);
  if (parsed.issues) refuse('payload_invalid', 'The request is not valid', parsed.issues);
  const value = 'value' in parsed ? parsed.value : undefined;
  if (!isTree(value)) throw usage('(root)', 'the request must be a map of fields; `windlass schema launch` shows them');
  return { ...value };
}

/** Secrets never come as arguments, where every process of the machine could read them: by name or by file only. */
export async function secretsFrom(names: readonly string[], files: readonly string[]): Promise<Record<string, string>> {
  const secrets: Record<string, string> = {};
  const issues: Issue[] = [];
  for (const name of names) {
    const value = shellEnv(name);
    if (value === undefined) issues.push({ path: `--secret-env ${name}`, message: 'this variable is not set in your shell' });
    else secrets[name] = value;
  }
  for (const file of files) {
    const [name, path] = pair('--secret-file', file);
    try {
      secrets[name] = new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(await readFile(path));
    } catch (error) {
      issues.push({ path: `--secret-file ${name}`, message: `cannot be read as text: ${(error as Error).message}` });
    }
  }
  refuse('payload_invalid', 'The secrets cannot be read', issues);
  return secrets;
}
