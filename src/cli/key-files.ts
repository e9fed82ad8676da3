/** Key ids and the variables that hold them, for `init` and `keys new` alike. */
export interface KeySet {
  /** The `secrets` part of the configuration. */
  readonly config: {
    readonly sealing: readonly {
      readonly id: string;
      readonly publicKey: Record<string, unknown>;
      readonly privateKeyEnv: string;
    }[];
    readonly atRest: readonly { readonly id: string; readonly keyEnv: string }[];
  };
  /** NAME → value, for windlass.env. */
  readonly env: Readonly<Record<string, string>>;
}

/** `suffix` keeps a second set apart from the first, while both are in the configuration. */
export async function makeKeys(suffix: string): Promise<KeySet> {
  const { newKeys } = await import('../inventory/key-material.ts');
  const { sealing, atRest } = newKeys();
  const tail = suffix === '1' ? '' : `_${suffix.toUpperCase().replaceAll(/[^A-Z0-9]/g, '_')}`;
  const names = { sealing: `WINDLASS_SEALING_KEY${tail}`, atRest: `WINDLASS_SECRET_KEY${tail}` };
  const { kty, crv, x, y } = sealing.publicJwk;
  return {
    config: {
      sealing: [{ id: `s${suffix}`, publicKey: { kty, crv, x, y }, privateKeyEnv: names.sealing }],
      atRest: [{ id: `k${suffix}`, keyEnv: names.atRest }],
    },
    env: { [names.sealing]: JSON.stringify(sealing.privateJwk), [names.atRest]: atRest },
  };
}

export const envLines = (keys: KeySet): string =>
  Object.entries(keys.env)
    .map(([name, value]) => `${name}=${value}\n`)
    .join('');
