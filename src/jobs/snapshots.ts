import { WindlassError } from '../errors.ts';
import type { Keyring } from '../inventory/secrets.ts';
import type { Shelf } from '../inventory/shelf.ts';
import { isAlreadyExists } from '../kubernetes/api-error.ts';
import { sharedLabels } from '../kubernetes/ownership.ts';
import type { Cluster } from '../kubernetes/port.ts';
import { sha256 } from '../names.ts';

/** A recipe as accepted, with the MAC that proves that a consumer of this installation accepted it (I2). */
export interface StoredSnapshot {
  readonly text: string;
  readonly mac: string;
}

const shelfName = (hash: string): string => `snapshot:${hash}`;

/** The ConfigMap that keeps a snapshot (full hash) beside the objects made from it: Redis may be lost, the cluster not. */
export const snapshotMap = (hash: string): string => `windlass-profile-${hash.slice(0, 40)}`;

export const shelveSnapshot = (shelf: Shelf, hash: string, snapshot: StoredSnapshot): Promise<void> =>
  shelf.put(shelfName(hash), snapshot);

export const readSnapshot = (shelf: Shelf, hash: string): Promise<StoredSnapshot | undefined> =>
  shelf.get<StoredSnapshot>(shelfName(hash));

const ensured = new WeakMap<Cluster, Map<string, Promise<void>>>();

/** Content-addressed and immutable; asked for at most once per process and cluster. */
export async function ensureSnapshotMap(
  cluster: Cluster,
  installation: string,
  hash: string,
  snapshot: StoredSnapshot,
): Promise<void> {
  const known = ensured.get(cluster) ?? new Map<string, Promise<void>>();
  ensured.set(cluster, known);
  const attempt = known.get(hash) ?? createMap(cluster, installation, hash, snapshot);
  known.set(hash, attempt);
  try {
    await attempt;
  } catch (error) {
    known.delete(hash);
    throw error;
  }
}

async function createMap(cluster: Cluster, installation: string, hash: string, snapshot: StoredSnapshot): Promise<void> {
  const name = snapshotMap(hash);
  // Not the stage's signal: others wait for the same answer.
  const signal = AbortSignal.timeout(30_000);
  const metadata = { name, namespace: cluster.namespace, labels: sharedLabels(installation, 'profile') };
  try {
    const data = { snapshot: snapshot.text, mac: snapshot.mac };
    await cluster.create('configmaps', { apiVersion: 'v1', kind: 'ConfigMap', metadata, immutable: true, data }, { signal });
  } catch (error) {
    if (!isAlreadyExists(error)) throw error;
    const found = await cluster.read('configmaps', name, { signal });
    if (found === undefined)
      throw new WindlassError('conflict', `${name} was there a moment ago and is gone now.`, { cause: error });
    if (sha256(found.data?.snapshot ?? '') === hash) return;
    throw new WindlassError('name_conflict', `The ConfigMap ${name} does not hold what its name stands for.`, {
      evidence: { name },
    });
  }
}

/**
 * The text of a snapshot, put back from its map where Redis lost it; undefined when there is none, or none that a consumer
 * of ours accepted.
 */
export async function recoverSnapshot(
  parts: { readonly shelf: Shelf; readonly keyring: Keyring },
  cluster: Cluster,
  hash: string,
  signal: AbortSignal,
): Promise<string | undefined> {
  if (hash === '') return undefined;
  const kept = await readSnapshot(parts.shelf, hash);
  if (kept !== undefined) return parts.keyring.verifyMac(kept.text, kept.mac) ? kept.text : undefined;
  const map = await cluster.read('configmaps', snapshotMap(hash), { signal });
  const { snapshot: text, mac } = map?.data ?? {};
  if (text === undefined || mac === undefined || sha256(text) !== hash || !parts.keyring.verifyMac(text, mac)) return undefined;
  await shelveSnapshot(parts.shelf, hash, { text, mac });
  return text;
}
