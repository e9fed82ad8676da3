import type { Issue } from '../errors.ts';
import { parseQuantity } from '../quantity.ts';
import { shapes } from './template-shapes.ts';

type Bag = Record<string, unknown>;

/**
 * Checks a value against a type of the table, strictly: an unknown field is an error, since the cluster would drop it
 * without a word. Returns a copy without nulls (which mean "not set") and with quantities as text.
 */
export function checkShape(value: unknown, type: string, path: string, issues: Issue[]): unknown {
  if (type.endsWith('[]')) return checkList(value, type.slice(0, -2), path, issues);
  if (type.endsWith('{}')) return checkMap(value, type.slice(0, -2), path, issues);
  const shape = shapes.get(type);
  if (!shape) return checkScalar(value, type, path, issues);
  if (!isBag(value)) return complain(issues, path, 'must be a mapping');
  const copy: Bag = {};
  for (const [key, inner] of Object.entries(value)) {
    if (inner === null) continue;
    const fieldType = shape.get(key);
    if (fieldType === undefined) complain(issues, `${path}.${key}`, `is no field of ${type}`);
    else copy[key] = checkShape(inner, fieldType, `${path}.${key}`, issues);
  }
  return copy;
}

function checkList(value: unknown, type: string, path: string, issues: Issue[]): unknown {
  if (!Array.isArray(value)) return complain(issues, path, 'must be a list');
  return value.map((inner, index) => checkShape(inner, type, `${path}[${index}]`, issues));
}

function checkMap(value: unknown, type: string, path: string, issues: Issue[]): unknown {
  if (!isBag(value)) return complain(issues, path, 'must be a mapping');
  const entries = Object.entries(value).filter(([, inner]) => inner !== null);
  return Object.fromEntries(entries.map(([key, inner]) => [key, checkShape(inner, type, `${path}.${key}`, issues)]));
}

const scalars: Readonly<Record<string, (value: unknown) => string | undefined>> = {
  any: () => undefined,
  string: (value) => (typeof value === 'string' ? undefined : 'must be text (put it in quotes)'),
  int: (value) => (Number.isSafeInteger(value) ? undefined : 'must be a whole number'),
  bool: (value) => (typeof value === 'boolean' ? undefined : 'must be true or false'),
  intOrString: (value) =>
    typeof value === 'string' || Number.isSafeInteger(value) ? undefined : 'must be a whole number or text',
  quantity: (value) => {
    try {
      return parseQuantity(String(value)) < 0n ? 'must not be negative' : undefined;
    } catch {
      return 'must be a quantity such as 10Gi, 500m or 2';
    }
  },
};

function checkScalar(value: unknown, type: string, path: string, issues: Issue[]): unknown {
  const problem = scalars[type]?.(value);
  if (problem !== undefined) return complain(issues, path, problem);
  return type === 'quantity' ? String(value) : value;
}

function complain(issues: Issue[], path: string, message: string): undefined {
  issues.push({ path, message });
  return undefined;
}

function isBag(value: unknown): value is Bag {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}
