import type { z } from 'zod';
import type { Issue } from '../errors.ts';
import { nearest, type Shape, shapeAt, variantsOf } from './shape.ts';

type ZodIssue = z.core.$ZodIssue;

/** zod's complaints about the configuration as ours: each with its path and what would be right. */
export function configIssues(error: z.ZodError, raw: unknown): Issue[] {
  return error.issues.flatMap((issue) => translate(issue, raw));
}

function translate(issue: ZodIssue, raw: unknown): Issue[] {
  const path = issue.path.map(String).join('.');
  if (issue.code === 'unrecognized_keys') {
    return issue.keys.map((key) => ({ path: path === '' ? key : `${path}.${key}`, message: unknownKey(key, issue.path, raw) }));
  }
  if (issue.code === 'invalid_union' && issue.errors.length > 0) {
    const last = issue.errors.at(-1) ?? [];
    return last.flatMap((inner) => translate({ ...inner, path: [...issue.path, ...inner.path] }, raw));
  }
  return [{ path, message: sentence(issue, raw) }];
}

function sentence(issue: ZodIssue, raw: unknown): string {
  const value = at(raw, issue.path);
  if (issue.code === 'invalid_type') {
    const wanted = wantedTypes[issue.expected] ?? `must be of type ${issue.expected}`;
    return value === undefined ? `is missing: ${wanted}` : `${wanted}, not ${kindOf(value)}`;
  }
  if (issue.code === 'invalid_value') {
    if (!issue.message.startsWith('Invalid')) return issue.message;
    return value === undefined ? `is missing: ${oneOf(issue.values)}` : oneOf(issue.values);
  }
  if (issue.code === 'invalid_union') {
    const options = (issue as { options?: readonly unknown[] }).options ?? [];
    return value === undefined ? `is missing: ${oneOf(options)}` : oneOf(options);
  }
  if (issue.code === 'invalid_key') return `is no valid name: ${issue.issues[0]?.message ?? issue.message}`;
  return bound(issue) ?? issue.message;
}

function bound(issue: ZodIssue): string | undefined {
  if (!/^Too (small|big)/.test(issue.message)) return undefined;
  const unit =
    'origin' in issue && issue.origin === 'string'
      ? ' characters'
      : 'origin' in issue && issue.origin === 'array'
        ? ' entries'
        : '';
  if (issue.code === 'too_small')
    return unit !== '' && issue.minimum === 1 ? 'must not be empty' : `must be at least ${issue.minimum}${unit}`;
  if (issue.code === 'too_big') return `must be at most ${issue.maximum}${unit}`;
  return undefined;
}

const wantedTypes: Readonly<Record<string, string>> = {
  string: 'must be a text',
  number: 'must be a number',
  int: 'must be a whole number',
  boolean: 'must be true or false',
  array: 'must be a list',
  record: 'must be a map of names',
  object: 'must be a map',
};
const kindOf = (value: unknown): string =>
  value === null
    ? 'empty'
    : Array.isArray(value)
      ? 'a list'
      : typeof value === 'object'
        ? 'a map'
        : `a ${typeof value === 'string' ? 'text' : typeof value}`;
const oneOf = (values: readonly unknown[]): string => `must be ${values.length > 1 ? 'one of ' : ''}${values.join(', ')}`;

function at(raw: unknown, path: readonly PropertyKey[]): unknown {
  return path.reduce<unknown>(
    (value, key) => (value === null || typeof value !== 'object' ? undefined : (value as Record<PropertyKey, unknown>)[key]),
    raw,
  );
}

/** A misspelt key names the nearest known one; a key of another mode says to which mode it belongs. */
function unknownKey(key: string, path: readonly PropertyKey[], raw: unknown): string {
  const shape = shapeAt(path);
  if (!shape) return 'is not a known key';
  const variants = variantsOf(shape);
  const owner = variants.find((variant) => variant.properties?.[key]);
  const tag = owner && discriminator(owner);
  if (tag) return `belongs to ${tag.name} ${tag.value}, not ${String(at(raw, [...path, tag.name]))}`;
  const known = variants.flatMap((variant) => Object.keys(variant.properties ?? {}));
  const near = nearest(key, known);
  return near
    ? `is not a known key; did you mean "${near}"?`
    : `is not a known key; known are ${[...new Set(known)].sort().join(', ')}`;
}

function discriminator(variant: Shape): { name: string; value: unknown } | undefined {
  const found = Object.entries(variant.properties ?? {}).find(([, inner]) => inner.const !== undefined);
  return found && { name: found[0], value: found[1].const };
}
