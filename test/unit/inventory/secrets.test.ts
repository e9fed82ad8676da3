import { generateKeyPairSync } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import type { Config } from '../../../src/config/schema.ts';
import { checkCanaries, createKeyring, createSealer, newKeys, resetCanaries } from '../../../src/inventory/secrets.ts';
import type { Shelf } from '../../../src/inventory/shelf.ts';

const first = newKeys();
const second = newKeys();
const env: Record<string, string> = {
  SEAL_1: JSON.stringify(first.sealing.privateJwk),
  SEAL_2: JSON.stringify(second.sealing.privateJwk),
  REST_1: first.atRest,
  REST_2: second.atRest,
};
type Secrets = Config['secrets'];
const sealing = (n: 1 | 2) =>
  ({
    id: `s${n}`,
    publicKey: (n === 1 ? first : second).sealing.publicJwk,
    privateKeyEnv: `SEAL_${n}`,
  }) as Secrets['sealing'][number];
const rest = (n: 1 | 2): Secrets['atRest'][number] => ({ id: `k${n}`, keyEnv: `REST_${n}` });
const keyring = (seal: (1 | 2)[] = [1], keep: (1 | 2)[] = [1], values = env, installation = 'local') =>
  createKeyring({ sealing: seal.map(sealing), atRest: keep.map(rest) }, (name) => values[name], installation);
const binding = { owner: 'ann', instanceId: 'ü/{}💥' };
const values = { TOKEN: 's3cret', EMPTY: '', UNICODE: '💥\n' };

describe('a sealed map', () => {
  test('is one compact JWE that names its key and opens to the same values', async () => {
    const sealed = await createSealer(sealing(1), 'local').seal(values, binding);
    expect(sealed.split('.')).toHaveLength(5);
    const header = JSON.parse(Buffer.from(sealed.split('.')[0] as string, 'base64url').toString());
    expect(header).toMatchObject({ alg: 'ECDH-ES+A256KW', enc: 'A256GCM', kid: 's1', installation: 'local', ...binding });
    expect(sealed).not.toContain('s3cret');
    expect(await keyring().open(sealed, binding)).toEqual(values);
  });

  test('opens for nobody else: not another owner, instance or installation', async () => {
    const sealed = await keyring().seal(values, binding);
    for (const other of [
      { ...binding, owner: 'bob' },
      { ...binding, instanceId: 'x' },
    ]) {
      await expect(keyring().open(sealed, other)).rejects.toMatchObject({ code: 'payload_invalid' });
    }
    await expect(keyring([1], [1], env, 'other').open(sealed, binding)).rejects.toMatchObject({ code: 'payload_invalid' });
  });

  test('does not open when its header was rewritten for another instance', async () => {
    const sealed = await keyring().seal(values, binding);
    const [, ...parts] = sealed.split('.');
    const forged = Buffer.from(
      JSON.stringify({ ...JSON.parse(Buffer.from(sealed.split('.')[0] as string, 'base64url').toString()), owner: 'bob' }),
    );
    const moved = [forged.toString('base64url'), ...parts].join('.');
    await expect(keyring().open(moved, { ...binding, owner: 'bob' })).rejects.toMatchObject({ code: 'payload_invalid' });
  });

  test('of an older key still opens after rotation, and names the missing key when it was dropped', async () => {
    const sealed = await keyring([1]).seal(values, binding);
    expect(await keyring([2, 1]).open(sealed, binding)).toEqual(values);
    await expect(keyring([2]).open(sealed, binding)).rejects.toMatchObject({
      code: 'secret_key_missing',
      message: expect.stringContaining('s1'),
    });
  });

  test('works with X25519 keys too', async () => {
    const pair = generateKeyPairSync('x25519');
    const key = {
      id: 'x',
      publicKey: pair.publicKey.export({ format: 'jwk' }),
      privateKeyEnv: 'X',
    } as Secrets['sealing'][number];
    const ring = createKeyring(
      { sealing: [key], atRest: [rest(1)] },
      (name) => (name === 'X' ? JSON.stringify(pair.privateKey.export({ format: 'jwk' })) : env[name]),
      'local',
    );
    expect(await ring.open(await ring.seal(values, binding), binding)).toEqual(values);
  });

  test('that is garbage is refused without quoting it', async () => {
    for (const garbage of ['', 'a.b.c.d.e', 'hunter2']) {
      const error = await keyring()
        .open(garbage, binding)
        .catch((thrown: unknown) => thrown);
      expect(error).toMatchObject({ code: 'payload_invalid' });
      expect(String((error as Error).stack)).not.toContain('hunter2');
    }
  });
});

describe('a secret at rest', () => {
  test('opens for its instance only, with whichever configured key it was made', async () => {
    const stored = await keyring([1], [1]).encrypt('token', 'hash-1');
    expect(stored).not.toContain('token');
    expect(await keyring([1], [2, 1]).decrypt(stored, 'hash-1')).toBe('token');
    await expect(keyring().decrypt(stored, 'hash-2')).rejects.toMatchObject({ code: 'payload_invalid' });
    await expect(keyring([1], [2]).decrypt(stored, 'hash-1')).rejects.toMatchObject({ code: 'secret_key_missing' });
    const otherBytes = keyring([1], [1], { ...env, REST_1: second.atRest });
    await expect(otherBytes.decrypt(stored, 'hash-1')).rejects.toMatchObject({ code: 'secret_key_missing' });
  });

  test('is not accepted where a sealed one is expected, nor the other way round', async () => {
    const ring = keyring();
    await expect(ring.open(await ring.encrypt('x', 'h'), binding)).rejects.toMatchObject({ code: expect.any(String) });
    await expect(ring.decrypt(await ring.seal(values, binding), 'h')).rejects.toMatchObject({ code: expect.any(String) });
  });
});

describe('a mac', () => {
  test('proves the text, also after rotation, and nothing else does', () => {
    const mac = keyring().mac('recipe');
    expect(keyring().verifyMac('recipe', mac)).toBe(true);
    expect(keyring([1], [2, 1]).verifyMac('recipe', mac)).toBe(true);
    expect(keyring().verifyMac('recipe2', mac)).toBe(false);
    expect(keyring([1], [2]).verifyMac('recipe', mac)).toBe(false);
    expect(keyring([1], [1], env, 'other').verifyMac('recipe', mac)).toBe(false);
    for (const forged of ['', 'k1.', `${mac}x`, mac.replace('k1', 'k2')])
      expect(keyring().verifyMac('recipe', forged)).toBe(false);
  });

  test('key, nonce key and encryption key all differ', () => {
    const ring = keyring();
    const nonceKey = Buffer.from(ring.nonceKey()).toString('base64url');
    expect(nonceKey).not.toBe(first.atRest);
    expect(Buffer.from(keyring().nonceKey()).toString('base64url')).toBe(nonceKey);
    expect(Buffer.from(keyring([1], [1], env, 'other').nonceKey()).toString('base64url')).not.toBe(nonceKey);
  });
});

describe('a key that is missing', () => {
  test.each(['SEAL_1', 'REST_1'])('%s is named, and nothing of what it held is shown', (name) => {
    const without = (value: string | undefined) => ({ ...env, [name]: value }) as Record<string, string>;
    for (const value of [undefined, '', 'hunter2', '{"hunter2":1}', name === 'SEAL_1' ? env.SEAL_2 : 'AAAA']) {
      try {
        keyring([1], [1], without(value));
        expect.unreachable();
      } catch (error) {
        expect(error).toMatchObject({ code: 'secret_key_missing', message: expect.stringContaining(name) });
        expect(`${(error as Error).stack}${JSON.stringify(error)}`).not.toContain('hunter2');
      }
    }
  });

  test('is named together with every other one', () => {
    expect(() => keyring([1, 2], [1], { SEAL_1: env.SEAL_1 as string })).toThrow(
      expect.objectContaining({
        issues: [
          { path: 'SEAL_2', message: 'is not set' },
          { path: 'REST_1', message: 'is not set' },
        ],
      }),
    );
  });

  test('is found by its canary before anything else is', async () => {
    const shelf = memoryShelf();
    await checkCanaries(keyring([1], [1]), shelf);
    await checkCanaries(keyring([1], [1]), shelf);
    await checkCanaries(keyring([1], [2, 1]), shelf);
    await expect(checkCanaries(keyring([1], [2]), shelf)).rejects.toMatchObject({
      code: 'secret_key_missing',
      message: expect.stringContaining('k1'),
    });
    await expect(checkCanaries(keyring([1], [1], { ...env, REST_1: second.atRest }), shelf)).rejects.toMatchObject({
      code: 'secret_key_missing',
    });
    await resetCanaries(keyring([1], [2, 1]), shelf);
    await checkCanaries(keyring([1], [2]), shelf);
  });
});

/** The part of a shelf that canaries use; Redis is tested in test/redis. */
function memoryShelf(): Shelf {
  const kept = new Map<string, unknown>();
  return {
    put: async (name: string, value: unknown) => void kept.set(name, value),
    async putIfAbsent<T>(name: string, value: T) {
      if (!kept.has(name)) kept.set(name, value);
      return kept.get(name) as T;
    },
  } as Shelf;
}
