import { WindlassError } from '../errors.ts';
import type { Keyring } from './secrets.ts';
import type { Shelf } from './shelf.ts';

const shelfName = 'canaries';
const plain = 'windlass';
const binding = 'canary';

/** One encrypted word for each at-rest key that was ever used, by key id. */
type Canaries = Readonly<Record<string, string>>;

/**
 * Opens the canary of every key that Redis holds secrets of, before a worker takes a job: a key that is missing, or
 * another one under the same id, shows here and not in the middle of a reconnect. Throws `secret_key_missing`.
 */
export async function checkCanaries(keyring: Keyring, shelf: Shelf): Promise<void> {
  const id = keyring.keyIds[0] as string;
  const mine: Canaries = { [id]: await keyring.encrypt(plain, binding) };
  const known = await shelf.putIfAbsent<Canaries>(shelfName, mine);
  for (const [kid, canary] of Object.entries(known)) await openCanary(keyring, kid, canary);
  if (known[id] === undefined) await shelf.put(shelfName, { ...known, ...mine });
}

/** The same without leaving a canary: a look with a wrong key must not become what everybody else is measured by. */
export async function openKnownCanaries(shelf: Shelf, keyring: Keyring): Promise<readonly string[]> {
  const known = (await shelf.get<Canaries>(shelfName)) ?? {};
  for (const [kid, canary] of Object.entries(known)) await openCanary(keyring, kid, canary);
  return Object.keys(known);
}

/** After every stored secret was encrypted anew: only the key in use has a canary. */
export async function resetCanaries(keyring: Keyring, shelf: Shelf): Promise<void> {
  await shelf.put(shelfName, { [keyring.keyIds[0] as string]: await keyring.encrypt(plain, binding) });
}

async function openCanary(keyring: Keyring, kid: string, canary: string): Promise<void> {
  try {
    if ((await keyring.decrypt(canary, binding)) === plain) return;
  } catch (error) {
    if (!(error instanceof WindlassError)) throw error;
  }
  throw new WindlassError(
    'secret_key_missing',
    `Redis holds secrets that were encrypted with key "${kid}", which the configuration lacks or has with other bytes.`,
    {
      hint: `Give secrets.atRest the right key "${kid}" again, behind the one in use: every configured key opens, the first one closes. \`windlass keys status\` checks it.`,
    },
  );
}
