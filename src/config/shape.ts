import { z } from 'zod';
import { configSchema } from './schema.ts';

/** The part of JSON Schema that zod prints and that is walked here. */
export interface Shape {
  readonly type?: string;
  readonly properties?: Readonly<Record<string, Shape>>;
  readonly additionalProperties?: Shape | boolean;
  readonly items?: Shape;
  readonly oneOf?: readonly Shape[];
  readonly anyOf?: readonly Shape[];
  readonly const?: unknown;
}

let cached: Shape | undefined;

/** The configuration's own schema as data: 20 ms, so only made for an override or a complaint. */
export function configShape(): Shape {
  cached ??= z.toJSONSchema(configSchema, { io: 'input' }) as Shape;
  return cached;
}

export const variantsOf = (shape: Shape): readonly Shape[] => shape.oneOf ?? shape.anyOf ?? [shape];

/** What may stand below `key`: in a map of names any key leads to the same shape. */
export function below(shape: Shape, key: string): Shape | undefined {
  for (const variant of variantsOf(shape)) {
    const own = variant.properties?.[key];
    if (own) return own;
    if (typeof variant.additionalProperties === 'object') return variant.additionalProperties;
    if (variant.items && /^\d+$/.test(key)) return variant.items;
  }
  return undefined;
}

export function shapeAt(path: readonly PropertyKey[]): Shape | undefined {
  return path.reduce<Shape | undefined>((shape, key) => shape && below(shape, String(key)), configShape());
}

/** Damerau-free edit distance, small strings only. */
function distance(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, index) => index);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      next[j] = Math.min(row[j]! + 1, next[j - 1]! + 1, row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1));
    }
    row = next;
  }
  return row[b.length]!;
}

/** The known word that was probably meant, or undefined when none is near. */
export function nearest(word: string, known: readonly string[]): string | undefined {
  const plain = (text: string) => text.toLowerCase().replace(/[-_]/g, '');
  const ranked = known
    .map((candidate) => ({ candidate, far: distance(plain(word), plain(candidate)) }))
    .sort((a, b) => a.far - b.far);
  const best = ranked[0];
  return best && best.far <= (word.length < 4 ? 1 : Math.max(2, Math.floor(word.length / 3))) ? best.candidate : undefined;
}
