import { existsSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { root } from '../support/root.ts';

/** How many tests the list that we follow has: entries may be added, none may be forgotten. */
const entriesThere = 143;

interface Entry {
  readonly theirs: string;
  readonly ours: readonly string[];
}

function entriesOf(text: string): Entry[] {
  const entries: { theirs: string; ours: string[] }[] = [];
  for (const line of text.split('\n')) {
    const own = /^ {2}- (.+)$/.exec(line)?.[1];
    const theirs = /^- (.+)$/.exec(line)?.[1];
    if (theirs !== undefined) entries.push({ theirs, ours: [] });
    else if (own !== undefined) entries.at(-1)?.ours.push(own);
  }
  return entries;
}

/** True when the source has a call whose first argument is this name, as `it('name', …)` and `describe.each(…)('name', …)` have. */
function names(source: string, name: string): boolean {
  return ["'", '"', '`'].some((quote) => {
    const written = name.replaceAll('\\', '\\\\').replaceAll(quote, `\\${quote}`);
    const literal = `${quote}${written}${quote}`.replace(/[.*+?^${}()|[\]\\]/g, '\\$&');
    return new RegExp(`\\(\\s*${literal}\\s*,`).test(source);
  });
}

/** What is wrong with one line of an entry; undefined = nothing. */
function problem(line: string): string | undefined {
  const reason = /^does not apply: (.*)$/.exec(line)?.[1];
  if (reason !== undefined) return reason.length < 40 ? `${line}: say why` : undefined;
  const [file = '', ...path] = line.split(' › ');
  if (!/^test\/.+\.test\.ts$/.test(file) || path.length === 0) return `${line}: is neither a test nor a reason`;
  if (!existsSync(join(root, file))) return `${file} does not exist`;
  const source = readFileSync(join(root, file), 'utf8');
  const missing = path.find((name) => !names(source, name));
  return missing === undefined ? undefined : `${file} has nothing named "${missing}"`;
}

describe('test/PARITY.md', () => {
  const entries = entriesOf(readFileSync(join(root, 'test/PARITY.md'), 'utf8'));

  test('has every entry once, with an equal or a reason', () => {
    const all = entries.map(({ theirs }) => theirs);
    expect(all.filter((name, at) => all.indexOf(name) !== at)).toEqual([]);
    expect(all.length).toBeGreaterThanOrEqual(entriesThere);
    expect(entries.filter(({ ours }) => ours.length === 0)).toEqual([]);
  });

  test('names tests that exist, and says why where there is none', () => {
    expect(entries.flatMap(({ ours }) => ours.map(problem)).filter((line) => line !== undefined)).toEqual([]);
  });

  test('would be refused for a test that was renamed, a file that was moved, and a reason that says nothing', () => {
    const here = 'test/unit/parity.test.ts';
    expect(problem(`${here} › test/PARITY.md › names tests that exist, and says why where there is none`)).toBeUndefined();
    expect(problem(`${here} › names tests that exist`)).toContain('has nothing named');
    expect(problem('test/unit/absent.test.ts › anything')).toContain('does not exist');
    expect(problem('does not apply: no')).toContain('say why');
    expect(problem(here)).toContain('neither a test nor a reason');
  });
});
