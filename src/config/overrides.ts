import type { Issue } from '../errors.ts';
import { isTree } from './raw.ts';
import { below, configShape, nearest, type Shape, variantsOf } from './shape.ts';

type Tree = Record<string, unknown>;
const plain = (text: string): string => text.toLowerCase().replace(/[-_]/g, '');

/**
 * Lays `WINDLASS__REDIS__URL=…` variables over the file. A segment matches a key without regard to case, `-` and `_`;
 * a value is read as its place in the schema says: texts as they are, everything else as JSON.
 */
export function applyOverrides(
  root: unknown,
  variables: readonly (readonly [string, string])[],
): { value: unknown; issues: Issue[] } {
  if (variables.length === 0) return { value: root, issues: [] };
  const value: Tree = isTree(root) ? { ...root } : {};
  const issues: Issue[] = [];
  for (const [name, text] of variables) {
    const problem = set(value, name, text);
    if (problem) issues.push({ path: name, message: problem });
  }
  return { value, issues };
}

function set(root: Tree, name: string, text: string): string | undefined {
  let shape: Shape = configShape();
  let tree = root;
  const segments = name.split('__').slice(1);
  for (const [index, segment] of segments.entries()) {
    const key = matchKey(shape, tree, segment);
    const inner = key === undefined ? undefined : below(shape, key);
    if (key === undefined || !inner) return unknownSetting(shape, segments, index);
    if (index === segments.length - 1) {
      const parsed = parseValue(inner, text);
      if (parsed.problem) return parsed.problem;
      tree[key] = parsed.value;
      return undefined;
    }
    const next: Tree = isTree(tree[key]) ? { ...tree[key] } : {};
    tree[key] = next;
    tree = next;
    shape = inner;
  }
  return 'names no setting';
}

function matchKey(shape: Shape, tree: Tree, segment: string): string | undefined {
  if (segment === '') return undefined;
  const known = variantsOf(shape).flatMap((variant) => Object.keys(variant.properties ?? {}));
  const found = [...known, ...Object.keys(tree)].find((key) => plain(key) === plain(segment));
  if (found) return found;
  const open = variantsOf(shape).some((variant) => typeof variant.additionalProperties === 'object');
  return open ? segment.toLowerCase().replaceAll('_', '-') : undefined;
}

function unknownSetting(shape: Shape, segments: readonly string[], index: number): string {
  const known = variantsOf(shape).flatMap((variant) => Object.keys(variant.properties ?? {}));
  const near = nearest(segments[index] ?? '', known);
  const path = ['WINDLASS', ...segments.slice(0, index), near?.toUpperCase()].join('__');
  return near ? `is no setting; did you mean ${path}?` : `is no setting: the configuration has no such key`;
}

/** The type of the place decides; a text that is no number is left to the schema to complain about. */
function parseValue(shape: Shape, text: string): { value?: unknown; problem?: string } {
  const types = variantsOf(shape).map((variant) => variant.type ?? typeof variant.const);
  if (types.includes('string')) return { value: text };
  if (types.every((type) => type === 'integer' || type === 'number'))
    return { value: text.trim() === '' || Number.isNaN(Number(text)) ? text : Number(text) };
  if (types.every((type) => type === 'boolean')) return { value: text === 'true' ? true : text === 'false' ? false : text };
  try {
    return { value: JSON.parse(text) };
  } catch (error) {
    return {
      problem: `must be JSON, because this setting is a ${types[0] === 'array' ? 'list' : 'map'}: ${(error as Error).message}`,
    };
  }
}
