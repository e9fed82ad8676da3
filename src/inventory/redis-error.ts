import { WindlassError } from '../errors.ts';

/** Replies of a Redis that is there but cannot serve right now, or not us. */
const unavailable =
  /^(OOM|LOADING|READONLY|MASTERDOWN|CLUSTERDOWN|TRYAGAIN|NOREPLICAS|BUSY|MISCONF|NOAUTH|WRONGPASS|NOPERM|UNBLOCKED)\b/;

/** Any error of a command as ours: a reply that only a bug explains is `invariant_broken`, the rest `redis_unavailable`. */
export function redisError(thrown: unknown): WindlassError {
  if (thrown instanceof WindlassError) return thrown;
  const error = thrown instanceof Error ? thrown : new Error(String(thrown));
  const text = error.message.slice(0, 300);
  if (error.name === 'ReplyError' && !unavailable.test(text)) {
    return new WindlassError('invariant_broken', `Redis refused a command of Windlass: ${text}`, { cause: thrown });
  }
  if (text.startsWith('OOM')) {
    return new WindlassError('redis_unavailable', 'Redis is out of memory and takes no new requests.', {
      cause: thrown,
      hint: 'Raise maxmemory, or tear instances down: removals still work.',
    });
  }
  return new WindlassError('redis_unavailable', `Redis cannot be reached: ${text}`, { cause: thrown });
}

/** Redis has reached maxmemory: reads and removals work, everything else is refused. */
export const isOutOfMemory = (thrown: unknown): boolean => thrown instanceof Error && thrown.message.startsWith('OOM');

/** Runs a command; one that changes records goes through scripts.ts instead. */
export async function asking<T>(run: () => Promise<T>): Promise<T> {
  try {
    return await run();
  } catch (error) {
    throw redisError(error);
  }
}
