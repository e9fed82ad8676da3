import { readFile } from 'node:fs/promises';

/**
 * The only place that reads the process environment. A Service called windlass injects `WINDLASS_PORT=tcp://…` into
 * every Pod of its namespace, so nothing here reads a variable by prefix except the `WINDLASS__` overrides.
 */
export const shellEnv = (name: string): string | undefined => process.env[name] || undefined;

/** `WINDLASS__A__B` variables, sorted by name so that the result never depends on the order of the environment. */
export function overrideVariables(): [name: string, value: string][] {
  return Object.entries(process.env)
    .filter((entry): entry is [string, string] => entry[0].startsWith('WINDLASS__') && entry[1] !== undefined)
    .sort(([a], [b]) => (a < b ? -1 : 1));
}

/** NO_COLOR (any value but the empty one) and dumb terminals get plain text. */
export const colourAllowed = (): boolean => !process.env.NO_COLOR && process.env.TERM !== 'dumb';

/**
 * `NAME=value` lines; empty lines and `#` comments are skipped. The value is taken as it stands (a private JWK is JSON,
 * full of quotes), except that one pair of single quotes around the whole is removed: that is how a shell needs it.
 */
export function parseEnvFile(text: string): Record<string, string> {
  const values: Record<string, string> = {};
  for (const line of text.split(/\r?\n/)) {
    const match = /^\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)=(.*?)\s*$/.exec(line);
    if (!match?.[1]) continue;
    const value = match[2] ?? '';
    values[match[1]] = /^'[^']*'$/.test(value) ? value.slice(1, -1) : value;
  }
  return values;
}

/** The variables of `windlass.env`; none when there is no such file. */
export async function readEnvFile(path: string): Promise<Record<string, string>> {
  try {
    return parseEnvFile(await readFile(path, 'utf8'));
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return {};
    throw error;
  }
}
