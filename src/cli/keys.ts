import type { Command } from 'commander';
import type { LoadedConfig } from '../config/load.ts';
import { asWindlassError, errorBody, type WindlassError } from '../errors.ts';
import { usage, verb } from './context.ts';
import { envLines, makeKeys } from './key-files.ts';
import { table } from './output.ts';

export function keys(program: Command): void {
  const group = program.command('keys').description('the keys that seal secrets and keep them at rest');
  const make = group
    .command('new')
    .description('make a sealing pair and an at-rest key: lines for windlass.env and the entries for the configuration')
    .option('--id <suffix>', 'ends the ids (s1, k1) and the names of the variables', '1');
  verb<{ id: string }>(make, async (context, options) => {
    if (!/^[A-Za-z0-9._-]{1,20}$/.test(options.id)) throw usage('--id', 'must be 1 to 20 letters, digits, ".", "_" or "-"');
    const made = await makeKeys(options.id);
    const { stringify } = await import('yaml');
    context.out.say('Keep the first part secret (windlass.env); the second belongs into the configuration, new keys first.');
    await context.out.show({
      document: { env: made.env, secrets: made.config },
      text: () => `${envLines(made)}\n${stringify({ secrets: made.config }).trimEnd()}`,
    });
    return 0;
  });
  verb(
    group.command('status').description('which keys are there, which is used, and whether they open what Redis holds'),
    async (context) => {
      const loaded = await context.load();
      const found = await keyStates(loaded);
      const stored = found.every((key) => key.error === null) ? await storedSecrets(loaded) : undefined;
      const problem = found.find((key) => key.error !== null)?.error ?? stored?.error;
      const rows = found.map((key) => [
        key.kind,
        key.id,
        key.variable,
        key.inUse ? 'in use' : 'opens',
        key.error?.message ?? 'ok',
      ]);
      await context.out.show({
        document: {
          keys: found.map((key) => ({ ...key, error: key.error && errorBody(key.error) })),
          opensStored: stored?.ids ?? null,
          ...(problem && { error: errorBody(problem) }),
        },
        text: () => table(['KIND', 'ID', 'VARIABLE', 'USE', 'STATE'], rows),
      });
      if (problem) context.out.say(problem.message);
      return problem ? problem.row.exit : 0;
    },
  );
}

interface KeyState {
  readonly kind: 'sealing' | 'atRest';
  readonly id: string;
  readonly variable: string;
  /** New secrets are made with it; the others only open older ones. */
  readonly inUse: boolean;
  readonly error: WindlassError | null;
}

async function keyStates(loaded: LoadedConfig): Promise<KeyState[]> {
  const { atRestKeys, openingKeys } = await import('../inventory/key-material.ts');
  const { sealing, atRest } = loaded.config.secrets;
  const problem = (read: () => unknown): WindlassError | null => {
    try {
      read();
      return null;
    } catch (error) {
      return asWindlassError(error);
    }
  };
  return [
    ...sealing.map(
      (key, index): KeyState => ({
        kind: 'sealing',
        id: key.id,
        variable: key.privateKeyEnv,
        inUse: index === 0,
        error: problem(() => openingKeys({ sealing: [key], atRest }, loaded.env)),
      }),
    ),
    ...atRest.map(
      (key, index): KeyState => ({
        kind: 'atRest',
        id: key.id,
        variable: key.keyEnv,
        inUse: index === 0,
        error: problem(() => atRestKeys({ sealing, atRest: [key] }, loaded.env)),
      }),
    ),
  ];
}

/** Key ids whose canary in Redis opens; a canary that does not is the error. */
export async function storedSecrets(loaded: LoadedConfig): Promise<{ ids: readonly string[]; error?: WindlassError }> {
  const { withShelf } = await import('./redis.ts');
  const [{ createKeyring }, { openKnownCanaries }] = await Promise.all([
    import('../inventory/secrets.ts'),
    import('../inventory/canary.ts'),
  ]);
  try {
    const keyring = createKeyring(loaded.config.secrets, loaded.env, loaded.config.installation);
    return { ids: await withShelf(loaded, (shelf) => openKnownCanaries(shelf, keyring)) };
  } catch (error) {
    return { ids: [], error: asWindlassError(error) };
  }
}
