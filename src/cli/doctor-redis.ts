import type { LoadedConfig } from '../config/load.ts';
import type { Perform } from './doctor.ts';

const mebibytes = (bytes: number): string => `${Math.round(bytes / 2 ** 20)} MiB`;

/** The server, what its user may do, and whether our keys open what it holds. Answers whether all of it is fine. */
export async function examineRedis(loaded: LoadedConfig, perform: Perform): Promise<boolean> {
  const reachable = await perform('redis', async () => {
    const { redisFactsOf } = await import('./redis.ts');
    const facts = await redisFactsOf(loaded);
    const kept =
      facts.persistence === 'none'
        ? 'no persistence: a restart of Redis loses every record until `recover`'
        : `persistence ${facts.persistence}`;
    return `version ${facts.version}, ${facts.evictionPolicy}, ${kept}, ${mebibytes(facts.used)} of ${facts.maxmemory > 0 ? mebibytes(facts.maxmemory) : 'no limit'}`;
  });
  const allowed = reachable && (await perform('redis.acl', () => tryAccess(loaded)));
  const opened = await perform('keys', async () => {
    const { createKeyring } = await import('../inventory/secrets.ts');
    const { sealing, atRest } = loaded.config.secrets;
    createKeyring(loaded.config.secrets, loaded.env, loaded.config.installation);
    const there = `${sealing.length} sealing, ${atRest.length} at rest`;
    if (!reachable) return `${there}; Redis was not asked`;
    const { storedSecrets } = await import('./keys.ts');
    const stored = await storedSecrets(loaded);
    if (stored.error) throw stored.error;
    return `${there}; they open what Redis holds`;
  });
  return allowed && opened;
}

async function tryAccess(loaded: LoadedConfig): Promise<string> {
  const { checkRedisAccess } = await import('./redis.ts');
  await checkRedisAccess(loaded);
  return `the user ${loaded.config.redis.username ?? 'of the connection'} may use our keys, scripts and channels`;
}
