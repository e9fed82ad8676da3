import type { Cluster, Redis } from 'ioredis';
import type { Keys } from './keys.ts';
import type { Inventory, ListOptions } from './port.ts';
import { decodeRecord } from './record.ts';
import { asking } from './redis-error.ts';
import { type InstanceRecord, type State, states, type Tombstone } from './types.ts';

type Reads = Pick<
  Inventory,
  'read' | 'readByHash' | 'tombstone' | 'tombstoneByHash' | 'list' | 'secrets' | 'leaseHolder' | 'counts' | 'expired'
>;

/** Looks at records without a right to act on them. */
export function createListing(redis: Redis | Cluster, keys: Keys, hashOf: (instanceId: string) => string): Reads {
  const readByHash = async (hash: string) => decodeRecord(await asking(() => redis.hgetall(keys.record(hash))));
  const tombstoneByHash = async (hash: string) => decodeTombstone(await asking(() => redis.hgetall(keys.tombstone(hash))));
  return {
    readByHash,
    tombstoneByHash,
    read: (instanceId) => readByHash(hashOf(instanceId)),
    tombstone: (instanceId) => tombstoneByHash(hashOf(instanceId)),
    list: (options) => list(redis, keys, options),
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

/** Newest first. A cursor is the index entry of the last item, so that inserts and removals between pages do no harm. */
async function list(redis: Redis | Cluster, keys: Keys, options: ListOptions): ReturnType<Inventory['list']> {
  const items: InstanceRecord[] = [];
  let cursor = options.cursor;
  for (;;) {
    const members = await page(redis, keys, options, cursor);
    for (const [at, record] of (await records(redis, keys, members)).entries()) {
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

function records(redis: Redis | Cluster, keys: Keys, members: readonly string[]): Promise<(InstanceRecord | undefined)[]> {
  return Promise.all(
    members.map(async (member) => decodeRecord(await asking(() => redis.hgetall(keys.record(hashOfMember(member)))))),
  );
}

/** Read again from the record itself, which may have changed since the index was read. */
function matches(record: InstanceRecord, options: ListOptions): boolean {
  return (
    (options.owner === undefined || record.owner === options.owner) &&
    (options.states === undefined || options.states.includes(record.state))
  );
}
