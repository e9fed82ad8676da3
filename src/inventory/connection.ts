import { readFileSync } from 'node:fs';
import { resolve } from 'node:path';
import type { ConnectionOptions } from 'node:tls';
import { Cluster, Redis, type RedisOptions } from 'ioredis';
import type { Config } from '../config/schema.ts';
import { WindlassError } from '../errors.ts';
import { parseRedisUrl, type RedisAddress } from './redis-url.ts';

export type Env = (name: string) => string | undefined;
/** commands, subscriber (pub/sub): answer or fail within seconds · bullmq: waits for Redis as long as it takes. */
type Role = 'commands' | 'subscriber' | 'bullmq';

/** The reply mapping stays the default: BullMQ, and our own reading, rely on it. */
type NodeOptions = Omit<RedisOptions, 'replyMapping'>;

/** How long a command may take, reconnects included, before it is `redis_unavailable`. */
const commandMs = 5000;
const connectMs = 3000;

/** What a connection said last, for the sentence that the caller of `connected` sees. */
const lastErrors = new WeakMap<object, Error>();

/**
 * Opens a connection (it connects by itself). `dir` is where relative TLS file paths start. Whoever cannot wait calls
 * `connected` next. An error listener is always attached: a Redis that goes away must not end the process.
 */
export function createRedis(config: Config['redis'], env: Env, dir: string, role: Role): Redis | Cluster {
  const address = parseRedisUrl(config.url);
  const options = optionsFor(config, address, env, dir, role);
  const redis =
    address.kind === 'cluster'
      ? openCluster(address, options)
      : new Redis({ ...options, ...targetOf(config, address, options, env) });
  redis.on('error', (error: Error) => lastErrors.set(redis, error));
  return redis;
}

/** Resolves once commands can be sent; `redis_unavailable`, and the connection closed, when that takes over three seconds. */
export async function connected<T extends Redis | Cluster>(redis: T): Promise<T> {
  if (redis.status === 'ready') return redis;
  let timer: NodeJS.Timeout | undefined;
  let onReady = () => {};
  const ready = new Promise<boolean>((done) => {
    onReady = () => done(true);
    redis.once('ready', onReady);
    timer = setTimeout(() => done(false), connectMs);
  });
  const ok = await ready;
  clearTimeout(timer);
  redis.off('ready', onReady);
  if (ok) return redis;
  redis.disconnect();
  const why = lastErrors.get(redis)?.message;
  throw new WindlassError('redis_unavailable', `Redis cannot be reached${why ? `: ${why}` : ' within 3 seconds'}.`);
}

function optionsFor(config: Config['redis'], address: RedisAddress, env: Env, dir: string, role: Role): NodeOptions {
  const tls = tlsOf(config, address, dir);
  const username = config.username ?? address.username;
  const password = secret(config.passwordEnv, 'redis.passwordEnv', env) ?? address.password;
  return {
    db: address.db,
    connectTimeout: connectMs,
    retryStrategy: backoff,
    // After a failover the old master answers READONLY: connect again and send the command again.
    reconnectOnError: (error) => (error.message.startsWith('READONLY') ? 2 : false),
    // Eight tries are about as long as commandTimeout: then the queue is emptied, so that nothing is sent long after
    // its caller was told that it failed. BullMQ insists on null.
    maxRetriesPerRequest: role === 'bullmq' ? null : 8,
    ...(role === 'bullmq' ? {} : { commandTimeout: commandMs }),
    // The hub subscribes again itself.
    autoResubscribe: role !== 'subscriber',
    ...(username === undefined ? {} : { username }),
    ...(password === undefined ? {} : { password }),
    ...(tls === undefined ? {} : { tls }),
  };
}

const backoff = (attempt: number) => Math.min(50 * 2 ** (attempt - 1), 1000);

/** Where a lone server is, or who knows it. */
function targetOf(config: Config['redis'], address: RedisAddress, options: NodeOptions, env: Env): NodeOptions {
  if (address.kind === 'single') return { ...address.hosts[0] };
  const sentinelPassword = secret(config.sentinelPasswordEnv, 'redis.sentinelPasswordEnv', env);
  return {
    sentinels: [...address.hosts],
    name: address.master,
    sentinelRetryStrategy: backoff,
    ...(sentinelPassword === undefined ? {} : { sentinelPassword }),
    ...(options.tls ? { enableTLSForSentinelMode: true, sentinelTLS: options.tls } : {}),
  };
}

function openCluster(address: RedisAddress, options: NodeOptions): Cluster {
  const { db: _db, retryStrategy: _retry, ...node } = options;
  return new Cluster([...address.hosts], {
    clusterRetryStrategy: backoff,
    redisOptions: node,
  });
}

function tlsOf(config: Config['redis'], address: RedisAddress, dir: string): ConnectionOptions | undefined {
  if (!address.tls && config.tls === undefined) return undefined;
  const read = (path: string | undefined, key: string) => {
    if (path === undefined) return undefined;
    try {
      return readFileSync(resolve(dir, path));
    } catch (cause) {
      throw invalid(`redis.tls.${key}`, `must be a readable file: ${path}`, cause);
    }
  };
  const files = {
    ca: read(config.tls?.caFile, 'caFile'),
    cert: read(config.tls?.certFile, 'certFile'),
    key: read(config.tls?.keyFile, 'keyFile'),
  };
  return Object.fromEntries(Object.entries(files).filter(([, content]) => content !== undefined));
}

function secret(name: string | undefined, path: string, env: Env): string | undefined {
  if (name === undefined) return undefined;
  const value = env(name);
  if (value === undefined || value === '') throw invalid(path, `names the variable ${name}, which is not set`);
  return value;
}

const invalid = (path: string, message: string, cause?: unknown) =>
  new WindlassError('config_invalid', `${path} ${message}.`, { issues: [{ path, message }], cause });
