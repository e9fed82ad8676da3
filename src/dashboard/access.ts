import { createHmac, randomBytes, timingSafeEqual } from 'node:crypto';
import type { Token } from '../config/load.ts';
import { WindlassError } from '../errors.ts';
import { sha256 } from '../names.ts';

export type Role = Token['role'];

/** Who is asking. */
export interface Identity {
  readonly name: string;
  readonly role: Role;
  readonly owners: readonly string[];
  /** bearer: an API client · session: a browser that signed in · open: nobody signed in, on loopback without tokens. */
  readonly via: 'bearer' | 'session' | 'open';
}

const ranks: Readonly<Record<Role, number>> = { viewer: 0, caller: 1, operator: 2 };
export const atLeast = (identity: Identity, role: Role): boolean => ranks[identity.role] >= ranks[role];
export const seesEverybody = (identity: Identity): boolean => identity.owners.includes('*');
export const maySee = (identity: Identity, owner: string): boolean => seesEverybody(identity) || identity.owners.includes(owner);

export interface Credentials {
  readonly authorization?: string | undefined;
  readonly cookie?: string | undefined;
}

export interface Access {
  /** undefined = not signed in. Throws `unauthorized` for a bearer token that is wrong. */
  identify(credentials: Credentials): Identity | undefined;
  /** A session cookie's value for a valid token, else undefined. */
  openSession(token: string): string | undefined;
  /** One that was made for this run, or ends within a day: it may come in an address (`?token=`), which others may read later. */
  isShortLived(token: string): boolean;
}

export const sessionCookie = 'windlass_session';
const sessionMs = 12 * 3600 * 1000;
const shortMs = 24 * 3600 * 1000;
/** A longer one is not hashed: nobody has such a token, and hashing it would be free work for an attacker. */
const maxTokenLength = 1024;

/** Only hashes are kept and compared; sessions are signed with a key of this process, so they end with it. */
export function createAccess(options: {
  readonly tokens: readonly Token[];
  readonly oneRunToken?: string;
  readonly open: boolean;
}): Access {
  const key = randomBytes(32);
  const oneRun: Token[] =
    options.oneRunToken === undefined
      ? []
      : [{ name: 'this run', sha256: sha256(options.oneRunToken), role: 'operator', owners: ['*'] }];
  const tokens = [...oneRun, ...options.tokens];
  const expired = (token: Token) => token.expiresAt !== undefined && Date.parse(token.expiresAt) <= Date.now();
  const valid = (hash: string) => tokens.find((token) => same(token.sha256, hash) && !expired(token));
  const find = (token: string) => (token.length > maxTokenLength ? undefined : valid(sha256(token)));
  const sign = (text: string) => createHmac('sha256', key).update(text).digest('base64url');
  const alias = (token: Token) => sign(`token ${token.sha256}`);
  const bySession = (cookie: string | undefined) => {
    const [name = '', until = '', mac = ''] = cookieValue(cookie, sessionCookie).split('.');
    if (!same(mac, sign(`${name}.${until}`)) || Number(until) <= Date.now()) return undefined;
    return tokens.find((token) => alias(token) === name && !expired(token));
  };
  return {
    identify({ authorization, cookie }) {
      if (authorization !== undefined) {
        const token = find(/^Bearer +(\S+)$/i.exec(authorization)?.[1] ?? '');
        if (!token) throw new WindlassError('unauthorized');
        return identityOf(token, 'bearer');
      }
      const token = bySession(cookie);
      if (token) return identityOf(token, 'session');
      return options.open ? { name: 'anybody on this machine', role: 'viewer', owners: ['*'], via: 'open' } : undefined;
    },
    openSession(token) {
      const found = find(token);
      const body = found && `${alias(found)}.${Date.now() + sessionMs}`;
      return body && `${body}.${sign(body)}`;
    },
    isShortLived(token) {
      const found = find(token);
      if (found === undefined) return false;
      return found === oneRun[0] || (found.expiresAt !== undefined && Date.parse(found.expiresAt) <= Date.now() + shortMs);
    },
  };
}

const identityOf = ({ name, role, owners }: Token, via: 'bearer' | 'session'): Identity => ({ name, role, owners, via });

function same(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)];
  return left.length === right.length && timingSafeEqual(left, right);
}

function cookieValue(header: string | undefined, name: string): string {
  for (const part of (header ?? '').split(';')) {
    const at = part.indexOf('=');
    if (part.slice(0, at).trim() === name) return part.slice(at + 1).trim();
  }
  return '';
}
