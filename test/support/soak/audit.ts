import type { AuditEntry } from '../../../src/local-cluster/audit.ts';

const named = /^windlass-([0-9a-f]{20})(.*)$/;
const kinds: readonly string[] = ['pods', 'persistentvolumeclaims'];

/**
 * Instances that ever had two Pods or two claims at a time, by the API server's own log. `hash resource: uid, uid` each.
 * An object lives from its create to the first delete that names it: names are taken until the object is gone, so one
 * that was created over another whose deletion nobody asked for ended by itself, and its work with it.
 */
export function duplicatesOf(entries: readonly AuditEntry[]): string[] {
  const live = new Map<string, Map<string, string>>();
  const found: string[] = [];
  for (const entry of entries) {
    const hash = named.exec(entry.name)?.[1];
    if (hash === undefined || entry.subresource !== '' || !kinds.includes(entry.resource) || !done(entry)) continue;
    const key = `${hash} ${entry.resource}`;
    const objects = live.get(key) ?? new Map<string, string>();
    live.set(key, objects);
    if (entry.verb === 'delete') objects.delete(entry.name);
    if (entry.verb !== 'create' || entry.uid === undefined) continue;
    const others = [...objects.values()].filter((uid) => uid !== entry.uid);
    if (others.length > 0) found.push(`${key}: ${[...others, entry.uid].join(', ')}`);
    objects.set(entry.name, entry.uid);
  }
  return found;
}

/** How many objects of this kind were made for an instance, by the API server's own log. */
export function createsOf(entries: readonly AuditEntry[], resource: 'pods' | 'persistentvolumeclaims', hash: string): number {
  const made = entries.filter(
    (entry) => entry.verb === 'create' && entry.resource === resource && entry.subresource === '' && done(entry),
  );
  return made.filter(({ name }) => named.exec(name)?.[1] === hash).length;
}

/** Code 0 is a dropped connection: with a UID the work was done all the same. */
const done = ({ code, uid, verb }: AuditEntry): boolean =>
  code === 0 ? uid !== undefined || verb === 'delete' : code >= 200 && code < 300;
