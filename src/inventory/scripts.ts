import { createHash, randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Cluster, Redis } from 'ioredis';
import { effect } from '../effects.ts';
import { WindlassError } from '../errors.ts';
import { redisError } from './redis-error.ts';

const names = [
  'launch-intent',
  'removal-intent',
  'begin',
  'try-lease',
  'renew',
  'release',
  'write',
  'finish-removal',
  'register-wait',
  'claim-waiters',
  'clear-claim',
  'wake',
  'extend',
  'requeue',
  'recover',
] as const;
type ScriptName = (typeof names)[number];

/** What a script says: flat text, and the record as it is now when it was asked for. */
export interface ScriptAnswer {
  readonly kind: string;
  readonly [field: string]: unknown;
}

/**
 * Runs one script atomically. Leaves of `args` are strings: Lua would lose digits of numbers. `opId` makes it idempotent
 * for a minute; a client that reconnects may send a script twice, so every script gets one of its own. The result's
 * second part is the record's hash, empty when there is none or it was not asked for.
 */
export type RunScript = (
  name: ScriptName,
  instance: string | undefined,
  args: Readonly<Record<string, unknown>>,
  opId?: string,
) => Promise<readonly [ScriptAnswer, Readonly<Record<string, string>>]>;

interface Source {
  readonly text: string;
  readonly sha: string;
}

export function createScripts(
  redis: Redis | Cluster,
  tag: string,
  limits: { eventsKept: number; tombstoneMs: number },
): RunScript {
  const sources = loadSources();
  const tail = [String(limits.eventsKept), String(limits.tombstoneMs)] as const;
  return async (name, instance, args, opId = randomUUID()) => {
    const source = sources[name];
    const rest = [1, tag, opId, pack(args), ...tail] as const;
    const run = () => evaluate(redis, source, rest) as Promise<[string, string[]]>;
    const [text, record] = await effect(`redis.${name}`, instance, run);
    const answer = JSON.parse(text) as ScriptAnswer;
    if (answer.kind === 'refused') {
      throw new WindlassError(answer.code as WindlassError['code'], answer.message as string);
    }
    return [answer, pairs(record)];
  };
}

/** A script that only looks, and therefore is no effect. Answers with one text. */
export function loadReader(
  redis: Redis | Cluster,
  name: 'read-fields' | 'unrecorded',
): (...args: [tag: string, ...string[]]) => Promise<string> {
  const text = readFileSync(join(scriptDir, `${name}.lua`), 'utf8');
  const source = { text, sha: shaOf(text) };
  return (...args) => evaluate(redis, source, [1, ...args]) as Promise<string>;
}

async function evaluate(redis: Redis | Cluster, source: Source, rest: readonly [number, ...string[]]): Promise<unknown> {
  try {
    return await redis.evalsha(source.sha, ...rest);
  } catch (error) {
    if (!(error instanceof Error) || !error.message.startsWith('NOSCRIPT')) throw redisError(error);
  }
  try {
    return await redis.eval(source.text, ...rest);
  } catch (error) {
    throw redisError(error);
  }
}

const pairs = (flat: readonly string[]): Record<string, string> =>
  Object.fromEntries(flat.flatMap((field, at) => (at % 2 === 0 ? [[field, flat[at + 1] ?? '']] : [])));

/** A lone surrogate has no UTF-8 form and Redis' JSON reader refuses it: it becomes U+FFFD, as it would on the wire. */
function pack(args: object): string {
  return JSON.stringify(args, (_key, value: unknown) =>
    typeof value === 'string' ? value.replace(/\p{Surrogate}/gu, '\ufffd') : value,
  );
}

const scriptDir = join(import.meta.dirname, 'lua');
const shaOf = (text: string): string => createHash('sha1').update(text).digest('hex');

/** The flags line has to stay the first one, before what all scripts share. */
function loadSources(): Record<ScriptName, Source> {
  const common = readFileSync(join(scriptDir, 'common.lua'), 'utf8');
  const load = (name: ScriptName): Source => {
    const own = readFileSync(join(scriptDir, `${name}.lua`), 'utf8');
    const end = own.indexOf('\n');
    const text = `${own.slice(0, end)}\n${common}\n${own.slice(end + 1)}`;
    return { text, sha: shaOf(text) };
  };
  return Object.fromEntries(names.map((name) => [name, load(name)])) as Record<ScriptName, Source>;
}
