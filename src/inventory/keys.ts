/**
 * The hash tag that every key and channel of one inventory starts with. One tag, so that each script touches one slot
 * of a Redis Cluster only; change it and every record is out of sight.
 */
export const inventoryTag = (prefix: string, installation: string): string => `{${prefix}:${installation}:inventory}`;

/** The keys that are read outside of scripts; lua/common.lua builds the same ones. */
export function createKeys(tag: string) {
  const named = (kind: string) => (name: string) => `${tag}:${kind}:${name}`;
  return {
    tag,
    all: `${tag}:all`,
    expiry: `${tag}:expiry`,
    pending: `${tag}:pending`,
    pendingJobs: `${tag}:pending-jobs`,
    claimed: `${tag}:claimed`,
    record: named('record'),
    secrets: named('secrets'),
    tombstone: named('tombstone'),
    lease: named('lease'),
    events: named('events'),
    state: named('state'),
    owner: named('owner'),
    wake: named('wake'),
    channels: { wake: `${tag}:wake`, intent: `${tag}:intent`, event: `${tag}:event` },
  };
}

export type Keys = ReturnType<typeof createKeys>;
