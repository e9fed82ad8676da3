import { Cluster, type Redis } from 'ioredis';
import { WindlassError } from '../errors.ts';
import { redisError } from './redis-error.ts';

/** What INFO tells about a server. Memory in bytes; `maxmemory` 0 = no limit. */
export interface RedisFacts {
  readonly version: string;
  readonly evictionPolicy: string;
  /** rdb: a snapshot was taken or tried since the start; INFO does not show whether one is scheduled. */
  readonly persistence: 'aof' | 'rdb' | 'none';
  readonly maxmemory: number;
  readonly used: number;
}

/**
 * Reads what matters from INFO only, since ACLs usually refuse CONFIG. Throws `redis_misconfigured` for an eviction
 * policy other than noeviction (it would evict records and leases: C72) or Redis < 7; of a cluster, every master counts.
 */
export async function checkRedis(redis: Redis | Cluster): Promise<RedisFacts> {
  const facts = await redisFacts(redis);
  if (Number.parseInt(facts.version, 10) < 7) {
    throw new WindlassError('redis_misconfigured', `Redis ${facts.version} is too old: version 7 or later is needed.`, {
      hint: 'Upgrade to Redis 7 or Valkey.',
    });
  }
  if (facts.evictionPolicy !== 'noeviction') {
    throw new WindlassError(
      'redis_misconfigured',
      `Redis may evict our records: its maxmemory-policy is ${facts.evictionPolicy}, it must be noeviction.`,
      { hint: 'Set maxmemory-policy noeviction.' },
    );
  }
  return facts;
}

/** The facts of the server, or of the fullest master of a cluster with the worst policy found. */
export async function redisFacts(redis: Redis | Cluster): Promise<RedisFacts> {
  const servers = redis instanceof Cluster ? redis.nodes('master') : [redis];
  const all = await Promise.all(servers.map(async (server) => parseInfo(await infoOf(server))));
  const worst = all.find((facts) => facts.evictionPolicy !== 'noeviction') ?? [...all].sort((a, b) => fill(b) - fill(a))[0];
  if (worst === undefined) throw new WindlassError('redis_unavailable', 'The Redis cluster has no master that answers.');
  return worst;
}

const fill = (facts: RedisFacts) => (facts.maxmemory === 0 ? 0 : facts.used / facts.maxmemory);

async function infoOf(server: Redis): Promise<string> {
  try {
    return await server.info();
  } catch (error) {
    throw redisError(error);
  }
}

function parseInfo(text: string): RedisFacts {
  const values = new Map<string, string>();
  for (const line of text.split(/\r?\n/)) {
    const at = line.indexOf(':');
    if (at > 0) values.set(line.slice(0, at), line.slice(at + 1));
  }
  const number = (name: string) => Number(values.get(name) ?? 0);
  const snapshots = number('rdb_saves') > 0 || number('rdb_bgsave_in_progress') > 0 || number('rdb_last_bgsave_time_sec') >= 0;
  return {
    version: values.get('redis_version') ?? '0',
    evictionPolicy: values.get('maxmemory_policy') ?? 'noeviction',
    persistence: values.get('aof_enabled') === '1' ? 'aof' : snapshots && values.has('rdb_last_bgsave_time_sec') ? 'rdb' : 'none',
    maxmemory: number('maxmemory'),
    used: number('used_memory'),
  };
}
