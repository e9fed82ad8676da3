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
