import { createHash } from 'node:crypto';

/**
 * 20 hex (80 bits) of sha256(JSON [installation, instanceId]): the part of every Redis key and object name that stands
 * for an instance. Derived, so that it can be checked before a delete (I16) and found again when Redis forgot.
 */
export function instanceHash(installation: string, instanceId: string): string {
  return sha256(JSON.stringify([installation, instanceId])).slice(0, 20);
}

export const podName = (hash: string): string => `windlass-${hash}`;
export const claimName = (hash: string): string => `windlass-${hash}-workspace`;

/** The ConfigMap that ties an installation's inventory to a namespace (design §7). */
export const epochName = (installation: string): string => `windlass-epoch-${sha256(`epoch ${installation}`).slice(0, 20)}`;

export function sha256(text: string | Uint8Array): string {
  return createHash('sha256').update(text).digest('hex');
}

/** JSON with sorted keys, so that equal content has equal text and therefore an equal hash. */
export function canonicalJson(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) =>
    inner !== null && typeof inner === 'object' && !Array.isArray(inner)
      ? Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : 1)))
      : inner,
  );
}
