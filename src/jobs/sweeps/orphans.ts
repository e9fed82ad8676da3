import type { V1ObjectMeta } from '@kubernetes/client-node';
import type { InstanceRecord, Tombstone } from '../../inventory/types.ts';
import { keys } from '../../kubernetes/ownership.ts';
import type { SweepEntry } from '../context.ts';
import { hashOf, type OwnedKind, ownedKinds, ownedPages, type Page } from './owned.ts';
import { ageSeconds, type Found, type Pass, type SweepPlan, underLease } from './pass.ts';
import { removeAsJudged } from './removal.ts';
import { due, keep, type Sighting, type Verdict } from './verdict.ts';

/** Objects of this installation that no live record knows. */
export const orphans: SweepPlan = {
  kind: 'orphans',
  breaker: true,
  async *look(pass) {
    for (const kind of ownedKinds) {
      for await (const page of ownedPages(pass, kind)) {
        yield* await findIn(pass, kind, page);
      }
    }
  },
};

interface Seen {
  readonly kind: OwnedKind;
  readonly meta: V1ObjectMeta;
  /** The cluster's time when it was seen. */
  readonly now: number;
}

/** The fields of a record that a verdict needs: a page of objects is one read of these. */
const judged = ['state', 'generation', 'creates', 'pod', 'workspace'] as const satisfies (keyof InstanceRecord)[];
export type Judged = Pick<InstanceRecord, (typeof judged)[number]>;

/** Nearly all of a page are what their records name: only of the others is a record read. */
async function findIn(pass: Pass, kind: OwnedKind, page: Page): Promise<Found[]> {
  const named = page.items.map((meta) => ({ meta, uid: meta.uid ?? '', hash: hashOf(meta.name ?? '', kind) }));
  const strange = await pass.inventory.unrecorded(kind, named.filter(isNamed));
  const read = await pass.inventory.readFields(
    strange.map(({ hash }) => hash),
    judged,
  );
  const records = new Map(strange.map(({ hash }, at) => [hash, read[at]]));
  const found = [...named.filter((object) => !isNamed(object)), ...strange].map(async ({ meta, uid }): Promise<Found> => {
    const seen = { kind, meta, now: page.serverTime };
    const entry = await judge(pass, seen, pass.seenBefore(uid), (hash) => records.get(hash));
    return { key: uid, entry, act: () => removeOrphan(pass, seen, entry) };
  });
  return Promise.all(found);
}

const isNamed = <T extends { hash: string | undefined; uid: string }>(object: T): object is T & { hash: string } =>
  object.hash !== undefined && object.uid !== '';

type RecordOf = (hash: string) => Judged | undefined | Promise<Judged | undefined>;

async function judge(pass: Pass, { kind, meta, now }: Seen, before: boolean, recordOf: RecordOf): Promise<SweepEntry> {
  const hash = hashOf(meta.name ?? '', kind);
  const age = ageSeconds(new Date(meta.creationTimestamp ?? now).getTime(), now);
  const about = { kind, name: meta.name ?? '', uid: meta.uid ?? '', ageSeconds: age, action: 'none' } as const;
  if (hash === undefined) return { ...about, rule: 'not_named_by_us', verdict: 'foreign', evidence: {} };
  const record = await recordOf(hash);
  const tombstone = record === undefined ? await pass.inventory.tombstoneByHash(hash) : undefined;
  const sighting = { before, ageSeconds: age };
  return { ...about, ...judgeOrphan({ meta, kind, record, tombstone, sighting, graceSeconds: pass.settings.graceSeconds }) };
}

/** On what is read again: an adopted or replaced object is not the one that was judged. */
function removeOrphan(pass: Pass, { kind }: Seen, entry: SweepEntry): Promise<SweepEntry> {
  return underLease(pass, hashOf(entry.name, kind) ?? '', entry, async (lease) => {
    let again = entry;
    const action = await removeAsJudged(pass, lease, kind, {
      name: entry.name,
      uid: entry.uid,
      async mayGo(meta, now) {
        again = await judge(pass, { kind, meta, now }, true, pass.inventory.readByHash);
        return again.verdict === 'delete';
      },
    });
    return { ...again, action };
  });
}

export interface OrphanFacts {
  readonly meta: V1ObjectMeta;
  readonly kind: OwnedKind;
  readonly record: Judged | undefined;
  readonly tombstone: Tombstone | undefined;
  readonly sighting: Sighting;
  readonly graceSeconds: number;
}

/**
 * What an object of ours is that the inventory was asked about. Only what is provably nobody's is deleted: a doubt
 * keeps it (I20), and a deletion needs an age past the grace and a second sighting (I21), unless its tombstone says so.
 */
export function judgeOrphan(facts: OrphanFacts): Verdict {
  const { meta, kind, record, tombstone } = facts;
  const annotations = meta.annotations ?? {};
  const generation = Number(annotations[keys.generation] ?? Number.NaN);
  if (!Number.isFinite(generation) || annotations[keys.nonce] === undefined)
    return { rule: 'not_made_by_us', verdict: 'foreign', evidence: {} };
  if (meta.deletionTimestamp !== undefined) return keep('being_deleted');
  if (record !== undefined) {
    if (belongs(record, kind, meta)) return keep('recorded', { state: record.state });
    if (record.state === 'launching' || record.state === 'requested') return keep('launch_under_way', { state: record.state });
    return due('delete', 'not_in_the_record', { state: record.state, generation, recordGeneration: record.generation }, facts);
  }
  if (tombstone !== undefined && generation <= tombstone.generation) {
    return { rule: 'of_a_gone_instance', verdict: 'delete', evidence: { generation, tombstoneGeneration: tombstone.generation } };
  }
  if (kind === 'persistentvolumeclaims' && annotations[keys.retained] === 'true') return keep('retained');
  return due('delete', 'no_record', { generation }, facts);
}

function belongs(record: Judged, kind: OwnedKind, meta: V1ObjectMeta): boolean {
  const intent = record.creates[kind];
  const recorded = kind === 'pods' ? record.pod?.uid : record.workspace?.claimUid;
  return recorded === meta.uid || intent?.uid === meta.uid || intent?.nonce === meta.annotations?.[keys.nonce];
}
