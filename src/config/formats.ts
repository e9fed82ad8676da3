import { z } from 'zod';

/** RFC 1123 label: what Kubernetes takes for namespaces and containers. */
export const dnsLabel = z
  .string()
  .regex(
    /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/,
    'must be 1 to 63 lower-case letters, digits or "-", starting and ending with a letter or digit',
  );

/** RFC 1123 subdomain: what Kubernetes takes for claims, Secrets and StorageClasses. */
export const dnsSubdomain = z
  .string()
  .max(253, 'must have at most 253 characters')
  .regex(
    /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/,
    'must be lower-case letters, digits, "-" or ".", starting and ending with a letter or digit',
  );

/** A positive Kubernetes quantity as it is typed: `10Gi`, `500m`, `1e3`. */
export const quantity = z
  .string()
  .regex(
    /^\+?[0-9]+(\.[0-9]+)?([EPTGMk]i?|Ki|m|u|n|[eE][-+]?[0-9]+)?$/,
    'must be a positive Kubernetes quantity such as 10Gi, 500m or 2',
  )
  .refine((text) => Number.parseFloat(text) > 0, 'must be more than zero');

/** A path, relative to the configuration file. */
export const relativePath = z.string().min(1, 'must not be empty');

const quantityFactors: Readonly<Record<string, number>> = {
  '': 1,
  m: 1e-3,
  u: 1e-6,
  n: 1e-9,
  k: 1e3,
  M: 1e6,
  G: 1e9,
  T: 1e12,
  P: 1e15,
  E: 1e18,
  Ki: 2 ** 10,
  Mi: 2 ** 20,
  Gi: 2 ** 30,
  Ti: 2 ** 40,
  Pi: 2 ** 50,
  Ei: 2 ** 60,
};

/** A quantity as a number, for comparing two of them; undefined when it is none. */
export function quantityValue(text: string): number | undefined {
  const match = /^\+?([0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?)([EPTGM]i?|Ki|[kmun])?$/.exec(text);
  if (!match) return undefined;
  return Number(match[1]) * (quantityFactors[match[2] ?? ''] ?? Number.NaN);
}
