import { usage } from './context.ts';

/** For options that may be given several times. */
export const collect = (value: string, previous: readonly string[] = []): string[] => [...previous, value];

const unitSeconds: Readonly<Record<string, number>> = { '': 1, s: 1, m: 60, h: 3600, d: 86400 };

/** `90`, `90s`, `5m`, `2h` → seconds. */
export function seconds(option: string, text: string): number {
  const match = /^(\d{1,9})([smhd]?)$/.exec(text);
  if (!match) throw usage(option, `must be seconds, or a number with s, m, h or d; not "${text}"`);
  return Number(match[1]) * unitSeconds[match[2] ?? '']!;
}

/** `--timeout` beside `--wait`; undefined = for ever. */
export function waitSeconds(options: { readonly wait?: boolean; readonly timeout?: string }): number | undefined {
  if (options.timeout === undefined) return undefined;
  if (!options.wait) throw usage('--timeout', 'only makes sense with --wait');
  return seconds('--timeout', options.timeout);
}

export function whole(option: string, text: string, min: number, max: number): number {
  const value = /^\d{1,9}$/.test(text) ? Number(text) : Number.NaN;
  if (!(value >= min && value <= max)) throw usage(option, `must be a whole number from ${min} to ${max}, not "${text}"`);
  return value;
}

/** `NAME=VALUE` → both; the value may hold further `=`. */
export function pair(option: string, text: string): [name: string, value: string] {
  const at = text.indexOf('=');
  if (at < 1) throw usage(option, `must be NAME=VALUE, not "${text}"`);
  return [text.slice(0, at), text.slice(at + 1)];
}

type Tree = Record<string, unknown>;

/**
 * `--set env.FOO=bar`: puts a value at a dotted path, making maps on the way. `\.` is a dot inside a key
 * (`labels.user\.windlass\.dev/team=x`); a number indexes an existing list.
 */
export function setPath(root: Tree, path: string, value: unknown): void {
  const keys = path.split(/(?<!\\)\./).map((key) => key.replaceAll('\\.', '.'));
  if (keys.some((key) => key === '' || key === '__proto__'))
    throw usage(`--set ${path}`, 'must be PATH=YAML with a dotted path such as env.FOO');
  let place: Tree = root;
  for (const key of keys.slice(0, -1)) {
    const inner = Object.hasOwn(place, key) ? place[key] : undefined;
    if (inner === null || inner === undefined) place[key] = {};
    else if (typeof inner !== 'object') throw usage(`--set ${path}`, `"${key}" holds a value, so nothing can be set below it`);
    place = place[key] as Tree;
  }
  place[keys.at(-1)!] = value;
}
