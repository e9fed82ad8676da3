import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { root } from '../support/root.ts';

test('the diagram in ARCHITECTURE.md shows exactly the transitions that the scripts allow', () => {
  const drawn = transitionsDrawn(readFileSync(join(root, 'ARCHITECTURE.md'), 'utf8'));
  const allowed = transitionsAllowed(readFileSync(join(root, 'src/inventory/lua/common.lua'), 'utf8'));
  expect(allowed.length).toBeGreaterThan(20);
  expect(drawn).toEqual(allowed);
});

/** `a --> b: why`; [*] stands for "no record" and has no row in the table. */
function transitionsDrawn(markdown: string): string[] {
  const diagram = /```mermaid\nstateDiagram-v2\n([\s\S]*?)```/.exec(markdown)?.[1] ?? '';
  return [...diagram.matchAll(/^\s*(\w+) --> (\w+)/gm)].map(([, from, to]) => `${from} > ${to}`).sort();
}

/** `from = { to = true, … },` inside `local LEGAL = { … }`. */
function transitionsAllowed(lua: string): string[] {
  const table = /local LEGAL = \{\n([\s\S]*?)\n\}/.exec(lua)?.[1] ?? '';
  return [...table.matchAll(/^\s*(\w+) = \{([^}]*)\}/gm)]
    .flatMap(([, from, targets = '']) => [...targets.matchAll(/(\w+) = true/g)].map(([, to]) => `${from} > ${to}`))
    .sort();
}
