import { randomBytes } from 'node:crypto';
import type { Cluster, Redis } from 'ioredis';
import { WindlassError } from '../errors.ts';
import { redisError } from './redis-error.ts';

/**
 * One command of each family that scripts of ours and of BullMQ use, on a key that is gone again at the end. Redis checks
 * the rights of the user for each of them, as it does in the real scripts.
 */
const tryCommands = `
local key = KEYS[1]
for _, command in ipairs({
  {'set', key, '1'}, {'get', key}, {'pexpire', key, 1000}, {'del', key},
  {'hset', key, 'a', '1'}, {'hgetall', key}, {'del', key},
  {'sadd', key, 'a'}, {'smembers', key}, {'del', key},
  {'zadd', key, '1', 'a'}, {'zrangebyscore', key, '-inf', '+inf'}, {'zpopmin', key}, {'del', key},
  {'rpush', key, 'a'}, {'lmove', key, key, 'LEFT', 'RIGHT'}, {'lrem', key, '0', 'a'}, {'del', key},
  {'xadd', key, '*', 'a', '1'}, {'xrange', key, '-', '+'}, {'xtrim', key, 'MAXLEN', '0'}, {'del', key},
  {'time'},
}) do redis.call(unpack(command)) end
return redis.call('publish', ARGV[1], '')
`;

/** Throws `redis_misconfigured` with Redis' own words when the user may not do below these hash tags what Windlass does. */
export async function checkAccess(redis: Redis | Cluster, tags: readonly string[]): Promise<void> {
  try {
    for (const tag of tags) {
      const name = `${tag}:doctor-${randomBytes(4).toString('hex')}`;
      await redis.eval(tryCommands, 1, name, name);
      // Workers wait with it; scripts may not block.
      await redis.bzpopmin(name, 0.01);
    }
  } catch (thrown) {
    const text = thrown instanceof Error ? thrown.message : String(thrown);
    if (!/NOPERM|permission|can't run this command|ACL/i.test(text)) throw redisError(thrown);
    throw new WindlassError('redis_misconfigured', `The Redis user may not do what Windlass does: ${text.slice(0, 300)}`, {
      cause: thrown,
      hint: 'Let it use all keys and channels of redis.prefix: ~{PREFIX:* &{PREFIX:* +@all -@dangerous +info +client|setname +client|id.',
    });
  }
}
