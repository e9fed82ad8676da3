import { existsSync, readFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { createProgram } from '../../src/cli/program.ts';
import { root } from '../support/root.ts';

const read = (page: string) => readFileSync(join(root, page), 'utf8');
const pages = ['README.md', 'CONTRIBUTING.md', 'ARCHITECTURE.md', 'docs/start.md', 'docs/security.md', 'docs/performance.md'];

/** The words of the first column of README's table of verbs: `launch -f FILE` is `launch`, `keys new|status` is both of `keys`. */
function tabled(): string[] {
  const table = read('README.md').split('| verb | does |')[1]?.split('\n\n')[0] ?? '';
  const cells = table.split('\n').map((row) => row.replaceAll('\\|', '/').split('|')[1] ?? '');
  return cells.flatMap((cell) => [...cell.matchAll(/`([^`]+)`/g)].flatMap(([, text = '']) => wordsOf(text)));
}

function wordsOf(text: string): string[] {
  const [verb = '', second = ''] = text.split(' ');
  return /^[a-z]+(\/[a-z]+)*$/.test(second) ? second.split('/').map((word) => `${verb} ${word}`) : [verb];
}

describe('the pages', () => {
  test('README has every verb of the command line in its table, and no other', () => {
    const verbs = createProgram().commands.flatMap((command) =>
      command.commands.length === 0 ? [command.name()] : command.commands.map((inner) => `${command.name()} ${inner.name()}`),
    );
    expect(tabled().sort()).toEqual(verbs.sort());
  });

  test('README says every exit code that the command line ends with', () => {
    const codes = [0, 1, 2, 3, 4, 5, 130, 124, 125, 126, 127];
    const text = /Exit codes:[\s\S]*?\n\n/.exec(read('README.md'))?.[0] ?? '';
    expect(codes.filter((code) => !new RegExp(`\\b${code}\\b`).test(text))).toEqual([]);
  });

  test.each(pages)('%s links and names only files that are there', (page) => {
    const text = read(page);
    const links = [...text.matchAll(/\]\(([^)#:]+)(?:#[^)]*)?\)/g)].map(([, target = '']) => join(dirname(page), target));
    const named = [...text.matchAll(/\b(?:test|src|docs|examples|deploy|scripts)\/[\w./-]*\.\w+\b/g)].map(([path]) => path);
    expect([...links, ...named].filter((path) => !existsSync(join(root, path)))).toEqual([]);
  });
});
