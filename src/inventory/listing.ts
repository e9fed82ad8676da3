import type { Cluster, Redis } from 'ioredis';
import type { Keys } from './keys.ts';
import type { Inventory, ListOptions, RecordPage } from './port.ts';
import { askFor, decodeParts, decodeRecord } from './record.ts';
import { asking } from './redis-error.ts';
import { loadReader } from './scripts.ts';
import { type InstanceRecord, type State, states, type Tombstone } from './types.ts';

type Reads = Pick<
  Inventory,
  | 'read'
  | 'readByHash'
  | 'readFields'
  | 'unrecorded'
  | 'tombstone'
  | 'tombstoneByHash'
  | 'list'
  | 'listFields'
  | 'secrets'
  | 'leaseHolder'
  | 'counts'
  | 'expired'
>;

/** Where a record has the UID of an object. */
const uidOf = { pods: ['pod', 'uid'], persistentvolumeclaims: ['workspace', 'claimUid'] } as const;

/** Looks at records without a right to act on them. */
export function createListing(redis: Redis | Cluster, keys: Keys, hashOf: (instanceId: string) => string): Reads {
  const readByHash = async (hash: string) => decodeRecord(await asking(() => redis.hgetall(keys.record(hash))));
  const read = loadReader(redis, 'read-fields');
  const compare = loadReader(redis, 'unrecorded');
  const readFields: Reads['readFields'] = async (hashes, fields) =>
    hashes.length === 0 ? [] : decodeParts(fields, await read(keys.tag, askFor(fields), hashes.join(' ')));
  const tombstoneByHash = async (hash: string) => decodeTombstone(await asking(() => redis.hgetall(keys.tombstone(hash))));
  return {
    readByHash,
    tombstoneByHash,
    read: (instanceId) => readByHash(hashOf(instanceId)),
    tombstone: (instanceId) => tombstoneByHash(hashOf(instanceId)),
    readFields,
    async unrecorded(kind, objects) {
      if (objects.length === 0) return [];
      const names = objects.map(({ hash, uid }) => `${hash} ${uid}`).join(' ');
      const places = await compare(keys.tag, ...uidOf[kind], names);
      return places === '' ? [] : places.split(' ').map((at) => objects[Number(at)] as (typeof objects)[number]);
    },
    list: (options) => list(redis, keys, options, (hashes) => Promise.all(hashes.map(readByHash))),
    listFields: (fields, options) => list(redis, keys, options, (hashes) => readFields(hashes, [...matched, ...fields])),
    secrets: (hash) => asking(() => redis.hgetall(keys.secrets(hash))),
    async leaseHolder(hash) {
      const [holder, ttlMs] = await asking(() =>
        Promise.all([redis.hget(keys.lease(hash), 'holder'), redis.pttl(keys.lease(hash))]),
      );
      return holder === null ? undefined : { holder, ttlMs: Math.max(0, ttlMs) };
    },
    async counts() {
      const found = await asking(() => Promise.all(states.map(async (state) => [state, await redis.zcard(keys.state(state))])));
      return Object.fromEntries(found) as Record<State, number>;
    },
    expired: (before, limit) => asking(() => redis.zrangebyscore(keys.expiry, '-inf', before, 'LIMIT', 0, limit)),
  };
}

function decodeTombstone(fields: Readonly<Record<string, string>>): Tombstone | undefined {
  const { instanceId, owner, generation, goneAt } = fields;
  if (instanceId === undefined || owner === undefined) return undefined;
  return { instanceId, owner, generation: Number(generation), goneAt: Number(goneAt) };
}

/** What a listing itself looks at in each record. */
const matched = ['owner', 'state'] as const satisfies (keyof InstanceRecord)[];
type Matched = Pick<InstanceRecord, (typeof matched)[number]>;

/** Newest first. A cursor is the index entry of the last item, so that inserts and removals between pages do no harm. */
async function list<K extends keyof InstanceRecord>(
  redis: Redis | Cluster,
  keys: Keys,
  options: ListOptions,
  read: (hashes: readonly string[]) => Promise<readonly ((Pick<InstanceRecord, K> & Matched) | undefined)[]>,
): Promise<RecordPage<K>> {
  const items: Pick<InstanceRecord, K>[] = [];
  let cursor = options.cursor;
  for (;;) {
    const members = await page(redis, keys, options, cursor);
    for (const [at, record] of (await read(members.map(hashOfMember))).entries()) {
      cursor = members[at] as string;
      if (record && matches(record, options)) items.push(record);
      if (items.length < options.limit) continue;
      const more = await page(redis, keys, { ...options, limit: 1 }, cursor);
      return { items, nextCursor: more.length > 0 ? cursor : null };
    }
    if (members.length < options.limit) return { items, nextCursor: null };
  }
}

/** The next index entries after `cursor`: the owner's, or those of the wanted states merged, or all. */
async function page(redis: Redis | Cluster, keys: Keys, options: ListOptions, cursor: string | undefined): Promise<string[]> {
  const indexes = options.owner !== undefined ? [keys.owner(options.owner)] : (options.states?.map(keys.state) ?? [keys.all]);
  const from = cursor === undefined ? '+' : `(${cursor}`;
  const found = await asking(() =>
    Promise.all(indexes.map((index) => redis.zrevrangebylex(index, from, '-', 'LIMIT', 0, options.limit))),
  );
  const merged = [...new Set(found.flat())].sort((a, b) => (a < b ? 1 : -1));
  return merged.slice(0, options.limit);
}

/** The part of an index entry after the padded time. */
const hashOfMember = (member: string) => member.slice(16);

/** Read again from the record itself, which may have changed since the index was read. */
function matches(record: Matched, options: ListOptions): boolean {
  return (
    (options.owner === undefined || record.owner === options.owner) &&
    (options.states === undefined || options.states.includes(record.state))
  );
}
