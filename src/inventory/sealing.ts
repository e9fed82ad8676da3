import { createPublicKey, type JsonWebKey, type KeyObject } from 'node:crypto';
import { CompactEncrypt } from 'jose';
import type { Config } from '../config/schema.ts';
import { WindlassError } from '../errors.ts';

/** Whose secrets they are. A sealed map opens only for the instance, owner and installation that it was sealed for. */
export interface Binding {
  readonly owner: string;
  readonly instanceId: string;
}

/** The producer's half: it seals and cannot open (I17). */
export interface Sealer {
  /** The whole map as one compact JWE: a JWE of its own for each value would be three hundred bytes each. */
  seal(values: Readonly<Record<string, string>>, binding: Binding): Promise<string>;
}

type SealingKey = Pick<Config['secrets']['sealing'][number], 'id' | 'publicKey'>;

/** Needs the public key only. Throws `config_invalid` when it is not one. */
export function createSealer(key: SealingKey | undefined, installation: string): Sealer {
  if (key === undefined) throw new WindlassError('config_invalid', 'secrets.sealing: no sealing key is configured.');
  const publicKey = importPublic(key);
  return {
    async seal(values, { owner, instanceId }) {
      const header = { alg: 'ECDH-ES+A256KW', enc: 'A256GCM', kid: key.id, installation, owner, instanceId };
      return new CompactEncrypt(new TextEncoder().encode(JSON.stringify(values))).setProtectedHeader(header).encrypt(publicKey);
    },
  };
}

function importPublic(key: SealingKey): KeyObject {
  try {
    return createPublicKey({ key: key.publicKey as JsonWebKey, format: 'jwk' });
  } catch (cause) {
    const message = `of key "${key.id}" is not a public JWK (EC P-256 or OKP X25519)`;
    throw new WindlassError('config_invalid', `secrets.sealing: publicKey ${message}.`, {
      issues: [{ path: `secrets.sealing.${key.id}.publicKey`, message }],
      cause,
    });
  }
}
