import type { Issue } from '../errors.ts';
import { profileIssues } from './profile-checks.ts';
import { isTree, list, type Tree, tree } from './raw.ts';

/**
 * What one field alone cannot show. Works on the raw document, tolerantly: a misspelt key elsewhere must not hide these
 * (every issue at once), so a field of the wrong type is simply not judged here.
 */
export function crossIssues(raw: unknown): Issue[] {
  if (!isTree(raw)) return [];
  const limits = tree(raw.limits);
  return [
    ...recipeIssues(raw),
    ...Object.entries(tree(raw.profiles)).flatMap(([name, profile]) => profileIssues(`profiles.${name}`, tree(profile), limits)),
    ...redisIssues(tree(raw.redis)),
    ...secretIssues(tree(raw.secrets)),
    ...tokenIssues('http.tokens', list(tree(raw.http).tokens)),
    ...sweepIssues(tree(raw.sweeps)),
  ];
}

function recipeIssues(raw: Tree): Issue[] {
  if (Object.keys(tree(raw.profiles)).length + Object.keys(tree(raw.apps)).length > 0) return [];
  if ((raw.profiles !== undefined && !isTree(raw.profiles)) || (raw.apps !== undefined && !isTree(raw.apps))) return [];
  return [{ path: 'profiles', message: 'name at least one profile or app: without one nothing can be launched' }];
}

const redisSchemes = ['redis:', 'rediss:', 'redis+sentinel:', 'redis+cluster:'];

function redisIssues(redis: Tree): Issue[] {
  if (typeof redis.url !== 'string') return [];
  const scheme = /^([a-z+]+:)\/\/(.+)$/.exec(redis.url);
  if (!scheme || !redisSchemes.includes(scheme[1] ?? '')) {
    return [
      { path: 'redis.url', message: 'must be redis://, rediss://, redis+sentinel://h1,h2/master or redis+cluster://h1,h2' },
    ];
  }
  const rest = scheme[2] ?? '';
  if (scheme[1] === 'redis+sentinel:' && !/\/[^/?]+/.test(rest)) {
    return [{ path: 'redis.url', message: 'must name the master after the hosts: redis+sentinel://h1,h2/master' }];
  }
  if ((scheme[1] === 'redis:' || scheme[1] === 'rediss:') && !URL.canParse(redis.url)) {
    return [{ path: 'redis.url', message: 'must be a URL with a host and a port from 1 to 65535' }];
  }
  return [];
}

function secretIssues(secrets: Tree): Issue[] {
  return [
    ...repeated('secrets.sealing', list(secrets.sealing), 'id'),
    ...repeated('secrets.atRest', list(secrets.atRest), 'id'),
    ...list(secrets.sealing).flatMap((key, index) => jwkIssues(`secrets.sealing.${index}.publicKey`, tree(tree(key).publicKey))),
  ];
}

const coordinate = /^[A-Za-z0-9_-]{43}$/;

function jwkIssues(path: string, key: Tree): Issue[] {
  const issues: Issue[] = [];
  if (key.kty === 'EC' && key.crv === 'X25519') issues.push({ path: `${path}.crv`, message: 'must be P-256 for kty EC' });
  if (key.kty === 'OKP' && key.crv === 'P-256') issues.push({ path: `${path}.crv`, message: 'must be X25519 for kty OKP' });
  if (typeof key.x === 'string' && !coordinate.test(key.x))
    issues.push({ path: `${path}.x`, message: 'must be 32 bytes as base64url (43 characters)' });
  if (key.kty === 'EC' && (typeof key.y !== 'string' || !coordinate.test(key.y))) {
    issues.push({ path: `${path}.y`, message: 'must be 32 bytes as base64url (43 characters) for kty EC' });
  }
  if (key.kty === 'OKP' && key.y !== undefined) issues.push({ path: `${path}.y`, message: 'must be left out for kty OKP' });
  return issues;
}

/** Also used for the entries of `http.tokensFile`. */
export function tokenIssues(path: string, tokens: readonly unknown[]): Issue[] {
  const narrow = tokens.flatMap((token, index) => {
    const { role, owners } = tree(token);
    const everyone = owners === undefined || (Array.isArray(owners) && owners.includes('*'));
    return role === 'operator' && !everyone
      ? [{ path: `${path}.${index}.owners`, message: 'must be ["*"] for an operator: its actions reach every owner' }]
      : [];
  });
  return [...repeated(path, tokens, 'name'), ...narrow];
}

function repeated(path: string, entries: readonly unknown[], field: string): Issue[] {
  const seen = new Set<unknown>();
  return entries.flatMap((entry, index) => {
    const value = tree(entry)[field];
    if (value === undefined || !seen.has(value)) {
      seen.add(value);
      return [];
    }
    return [{ path: `${path}.${index}.${field}`, message: `"${String(value)}" is used twice: each ${field} must be unique` }];
  });
}

function sweepIssues(sweeps: Tree): Issue[] {
  return Object.entries(sweeps).flatMap(([kind, value]) => {
    const { tz, cron } = tree(value);
    const issues: Issue[] = [];
    if (typeof tz === 'string' && !knownTimeZone(tz))
      issues.push({ path: `sweeps.${kind}.tz`, message: 'must be a time zone such as UTC or Europe/Berlin' });
    if (typeof cron === 'string' && !/^\S+(\s+\S+){4,5}$/.test(cron.trim())) {
      issues.push({
        path: `sweeps.${kind}.cron`,
        message: 'must have 5 fields (minute hour day month weekday), or 6 with seconds first',
      });
    }
    return issues;
  });
}

function knownTimeZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: name });
    return true;
  } catch (error) {
    if (error instanceof RangeError) return false;
    throw error;
  }
}
