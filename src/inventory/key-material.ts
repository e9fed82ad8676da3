import {
  createPrivateKey,
  createPublicKey,
  generateKeyPairSync,
  hkdfSync,
  type JsonWebKey,
  type KeyObject,
  randomBytes,
} from 'node:crypto';
import type { Config } from '../config/schema.ts';
import { type Issue, WindlassError } from '../errors.ts';
import type { Env } from './connection.ts';

type Secrets = Config['secrets'];

export interface AtRestKey {
  readonly id: string;
  readonly bytes: Uint8Array;
}

/** Both kinds of key. `secret_key_missing` has an issue for each variable that is not set or holds no fitting key. */
export function allKeys(secrets: Secrets, env: Env): { opening: Map<string, KeyObject>; atRest: [AtRestKey, ...AtRestKey[]] } {
  const { sealing, atRest } = secrets;
  const readers = [
    ...sealing.map((key) => () => openingKeys({ sealing: [key], atRest }, env)),
    ...atRest.map((key) => () => atRestKeys({ sealing, atRest: [key] }, env)),
  ];
  const problems = readers.flatMap((read) => problemsOf(read));
  const names = problems.map(({ path, message }) => `the variable ${path} ${message}`).join('; ');
  if (problems.length > 0) throw new WindlassError('secret_key_missing', `Keys are missing: ${names}.`, { issues: problems });
  return { opening: openingKeys(secrets, env), atRest: atRestKeys(secrets, env) };
}

function problemsOf(read: () => unknown): readonly Issue[] {
  try {
    read();
    return [];
  } catch (error) {
    if (error instanceof WindlassError) return error.issues;
    throw error;
  }
}

/** Private halves by key id. `secret_key_missing` names the variable that is not set, not a key, or of another pair. */
export function openingKeys(secrets: Secrets, env: Env): Map<string, KeyObject> {
  return new Map(secrets.sealing.map((key) => [key.id, privateKey(key, value(env, key.privateKeyEnv))]));
}

export function atRestKeys(secrets: Secrets, env: Env): [AtRestKey, ...AtRestKey[]] {
  return secrets.atRest.map(({ id, keyEnv }) => {
    const text = value(env, keyEnv);
    const bytes = Buffer.from(text, 'base64url');
    if (!/^[A-Za-z0-9_-]+={0,2}$/.test(text) || bytes.length !== 32) throw unusable(keyEnv, 'must hold 32 bytes as base64url');
    return { id, bytes };
  }) as AtRestKey[] as [AtRestKey, ...AtRestKey[]];
}

/** A key for one purpose; the key that encrypts is used for nothing else. */
export function derive(key: AtRestKey, installation: string, purpose: string): Uint8Array {
  return new Uint8Array(hkdfSync('sha256', key.bytes, installation, `windlass ${purpose}`, 32));
}

function privateKey(key: Secrets['sealing'][number], text: string): KeyObject {
  const variable = key.privateKeyEnv;
  let opened: KeyObject;
  try {
    opened = createPrivateKey({ key: JSON.parse(text) as JsonWebKey, format: 'jwk' });
  } catch {
    // Without the cause: parsers quote what they could not read.
    throw unusable(variable, 'must hold a private JWK as JSON');
  }
  const own = createPublicKey(opened).export({ format: 'jwk' });
  const { publicKey } = key;
  if (own.crv === publicKey.crv && own.x === publicKey.x && own.y === publicKey.y) return opened;
  throw unusable(variable, `is not the private half of sealing key "${key.id}"`);
}

function value(env: Env, name: string): string {
  const text = env(name);
  if (text === undefined || text === '') throw unusable(name, 'is not set');
  return text.trim();
}

const unusable = (variable: string, why: string) =>
  new WindlassError('secret_key_missing', `The variable ${variable} ${why}.`, { issues: [{ path: variable, message: why }] });

/** A new pair and a new key, as `windlass keys new` prints them. */
export function newKeys(): { sealing: { publicJwk: JsonWebKey; privateJwk: JsonWebKey }; atRest: string } {
  const { publicKey, privateKey } = generateKeyPairSync('ec', { namedCurve: 'P-256' });
  return {
    sealing: { publicJwk: publicKey.export({ format: 'jwk' }), privateJwk: privateKey.export({ format: 'jwk' }) },
    atRest: randomBytes(32).toString('base64url'),
  };
}
