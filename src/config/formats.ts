import { z } from 'zod';
import { compareQuantity } from '../quantity.ts';

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
    /^\+?[0-9]+(\.[0-9]+)?([EPTGM]i?|Ki|[kmun]|[eE][-+]?[0-9]{1,3})?$/,
    'must be a positive Kubernetes quantity such as 10Gi, 500m or 2',
  )
  .max(64, 'must not be longer than 64 characters')
  .refine((text) => !(Number.parseFloat(text) <= 0), 'must be more than zero');

/** Both are quantities, and the first is the greater one. */
export const exceeds = (one: unknown, other: unknown): boolean => {
  const [a, b] = [quantity.safeParse(one), quantity.safeParse(other)];
  return a.success && b.success && compareQuantity(a.data, b.data) > 0;
};

/** A path, relative to the configuration file. */
export const relativePath = z.string().min(1, 'must not be empty');
