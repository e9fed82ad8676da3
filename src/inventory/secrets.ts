import { createHmac, timingSafeEqual } from 'node:crypto';
import { CompactEncrypt, type CompactJWEHeaderParameters, compactDecrypt } from 'jose';
import type { Config } from '../config/schema.ts';
import { WindlassError } from '../errors.ts';
import type { Env } from './connection.ts';
import { type AtRestKey, allKeys, derive } from './key-material.ts';
import { type Binding, createSealer, type Sealer } from './sealing.ts';

export { checkCanaries, resetCanaries } from './canary.ts';
export { newKeys } from './key-material.ts';
export { type Binding, createSealer, type Sealer } from './sealing.ts';

/** The consumer's half: opens what producers sealed, and keeps secrets at rest. */
export interface Keyring extends Sealer {
  /** Throws `secret_key_missing` for an unknown key id and `payload_invalid` for another instance's or a broken one. */
  open(sealed: string, binding: Binding): Promise<Record<string, string>>;
  /** For Redis, under the first key. `binding` is any text that says whose it is (the instance's hash). */
  encrypt(text: string, binding: string): Promise<string>;
  /** Opens with whichever configured key it was made; `secret_key_missing` when there is none. */
  decrypt(stored: string, binding: string): Promise<string>;
  /** Proves that a consumer of this installation wrote a text. */
  mac(text: string): string;
  verifyMac(text: string, mac: string): boolean;
  /** What create-nonces are derived from: the same in every consumer, so that a lost record can be derived again (I3). */
  nonceKey(): Uint8Array;
  /** Those of all configured keys, the one in use first: what was made before a rotation is still known as ours. */
  nonceKeys(): readonly Uint8Array[];
  /** At-rest key ids, the one in use first. */
  readonly keyIds: readonly string[];
}

const utf8 = new TextEncoder();
const text = (bytes: Uint8Array) => new TextDecoder('utf-8', { fatal: true }).decode(bytes);

/** Throws `secret_key_missing`, naming the variable, when a configured key is not there: all of them open, the first is used. */
export function createKeyring(secrets: Config['secrets'], env: Env, installation: string): Keyring {
  const { opening, atRest: keys } = allKeys(secrets, env);
  const [current] = keys;
  const macOf = (key: AtRestKey, content: string) =>
    `${key.id}.${createHmac('sha256', derive(key, installation, 'mac'))
      .update(content)
      .digest('base64url')}`;
  return {
    keyIds: keys.map((key) => key.id),
    seal: createSealer(secrets.sealing[0], installation).seal,
    async open(sealed, { owner, instanceId }) {
      const plain = await openWith(sealed, 'A256GCM', 'ECDH-ES+A256KW', (kid) => opening.get(kid), {
        installation,
        owner,
        instanceId,
      });
      return JSON.parse(plain) as Record<string, string>;
    },
    encrypt: (content, binding) =>
      new CompactEncrypt(utf8.encode(content))
        .setProtectedHeader({ alg: 'dir', enc: 'A256GCM', kid: current.id, installation, binding })
        .encrypt(current.bytes),
    decrypt: (stored, binding) =>
      openWith(stored, 'A256GCM', 'dir', (kid) => keys.find((key) => key.id === kid)?.bytes, { installation, binding }),
    mac: (content) => macOf(current, content),
    verifyMac: (content, mac) => keys.some((key) => sameText(macOf(key, content), mac)),
    nonceKey: () => derive(current, installation, 'nonce'),
    nonceKeys: () => keys.map((key) => derive(key, installation, 'nonce')),
  };
}

type Key = Parameters<typeof compactDecrypt>[1];

async function openWith(
  jwe: string,
  enc: string,
  alg: string,
  find: (kid: string) => Key | undefined,
  expected: Readonly<Record<string, string>>,
): Promise<string> {
  const keyFor = (header: CompactJWEHeaderParameters | undefined): Key => {
    const found = find(String(header?.kid));
    if (found) return found;
    throw new WindlassError(
      'secret_key_missing',
      `There is no key "${String(header?.kid).slice(0, 40)}" to open a stored secret with.`,
    );
  };
  try {
    const { plaintext, protectedHeader } = await compactDecrypt(jwe, async (header) => keyFor(header) as never, {
      keyManagementAlgorithms: [alg],
      contentEncryptionAlgorithms: [enc],
    });
    const other = Object.entries(expected).find(([name, value]) => protectedHeader[name] !== value);
    if (other) throw new WindlassError('payload_invalid', `A sealed secret was made for another ${other[0]}.`);
    return text(plaintext);
  } catch (error) {
    if (error instanceof WindlassError) throw error;
    // Without the cause: it may quote what it failed on.
    if (alg === 'dir') {
      throw new WindlassError(
        'secret_key_missing',
        'A stored secret cannot be opened: the at-rest key of its name has other bytes here, or it is broken.',
      );
    }
    throw new WindlassError(
      'payload_invalid',
      'A sealed secret cannot be opened: it is broken, or was sealed with another key.',
      {
        issues: [{ path: 'sealedEnv', message: 'cannot be opened' }],
      },
    );
  }
}

function sameText(a: string, b: string): boolean {
  const [left, right] = [Buffer.from(a), Buffer.from(b)];
  return left.length === right.length && timingSafeEqual(left, right);
}
