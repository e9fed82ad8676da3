import type { V1ObjectMeta } from '@kubernetes/client-node';
import type { JobRef, Lease } from '../../inventory/port.ts';
import type { CreateRecord, InstanceRecord } from '../../inventory/types.ts';
import { adoptable } from '../../kubernetes/ownership.ts';
import type { JobState, SweepEntry } from '../context.ts';
import { assertSameNamespace, derivedName } from '../remove.ts';
import { hashOf, type OwnedKind, ownedKinds, ownedPages } from './owned.ts';
import { ageSeconds, type Found, type Pass, type SweepPlan, underLease } from './pass.ts';
import { aboutRecord, recordPages } from './records.ts';
import { removeAsJudged } from './removal.ts';
import { due, keep, type Sighting, type Verdict } from './verdict.ts';

/** Half-way with nobody on it: lost jobs, failed rollbacks, open create intents, objects that stay Terminating. */
export const stuck: SweepPlan = {
  kind: 'stuck',
  breaker: true,
  async *look(pass) {
    for (const kind of ownedKinds) {
      for await (const page of ownedPages(pass, kind))
        yield* page.items.flatMap((meta) => terminating(pass, kind, meta, page.serverTime));
    }
    // Of before the records are read: one written since is of age 0.
    const now = await pass.inventory.now();
    for await (const page of recordPages(pass, halfWay, judged)) yield* await findIn(pass, page, now);
    for await (const page of recordPages(pass, atRest, ['hash', 'creates'])) {
      const open = page.filter((record) => openCreates(record).length > 0).map(({ hash }) => hash);
      const read = await pass.inventory.readFields(open, judged);
      const late = read.filter((record) => record !== undefined);
      yield* await findIn(pass, late, now);
    }
  },
};

/** Somebody should be on these. */
const halfWay = ['requested', 'launching', 'rolling_back', 'removing', 'cleanup_pending'] as const;
/** Of these, which may be very many, only an open create can be stuck. */
const atRest = ['failed', 'lost', 'suspended'] as const;

/** The API server finishes a deletion, or a finalizer of somebody else holds it: we can only tell. */
function terminating(pass: Pass, kind: OwnedKind, meta: V1ObjectMeta, now: number): Found[] {
  if (meta.deletionTimestamp === undefined) return [];
  const age = ageSeconds(new Date(meta.deletionTimestamp).getTime(), now);
  if (age < pass.settings.graceSeconds) return [];
  const evidence = {
    deletionTimestamp: new Date(meta.deletionTimestamp).toISOString(),
    finalizers: meta.finalizers ?? [],
    hash: hashOf(meta.name ?? '', kind) ?? null,
  };
  const about = { kind, name: meta.name ?? '', uid: meta.uid ?? '', ageSeconds: age, action: 'none' } as const;
  return [{ key: meta.uid ?? '', entry: { ...about, rule: 'stays_terminating', verdict: 'report', evidence } }];
}

/** The fields of a record that the look needs; what is done is decided on the whole record. */
const judged = [
  'hash',
  'instanceId',
  'state',
  'intent',
  'generation',
  'run',
  'removeUpTo',
  'removeRun',
  'creates',
  'failure',
  'pod',
  'updatedAt',
] as const;
type Judged = Pick<InstanceRecord, (typeof judged)[number]>;

async function findIn(pass: Pass, page: readonly Judged[], now: number): Promise<Found[]> {
  const found = await Promise.all(page.map((record) => find(pass, record, now)));
  return found.filter(({ entry }) => entry.verdict !== 'keep');
}

async function find(pass: Pass, record: Judged, now: number): Promise<Found> {
  const key = `${record.hash} ${record.generation} ${record.run}`;
  const held = async () => (await pass.inventory.leaseHolder(record.hash)) !== undefined;
  const entry = await judge(pass, record, now, pass.seenBefore(key), held);
  return { key, entry, act: () => act(pass, record, entry) };
}

async function judge(
  pass: Pass,
  record: Judged,
  now: number,
  before: boolean,
  held: () => Promise<boolean>,
): Promise<SweepEntry> {
  const about = aboutRecord(record, now);
  const sighting = { before, ageSeconds: about.ageSeconds };
  const facts = { record, now, sighting, graceSeconds: pass.settings.graceSeconds };
  const job = isHalfWay(record) ? await pass.jobState(jobOf(record)) : 'missing';
  return { ...about, ...judgeStuck({ ...facts, held: await held(), job }) };
}

/** The queue entry that should be at work on a half-way record. */
export function jobOf(record: Judged): JobRef {
  const { hash, generation, run, removeUpTo, removeRun = 1 } = record;
  if (removeUpTo === 0 && record.intent === 'present') return { queue: 'launch', jobId: `launch-${hash}-${generation}-${run}` };
  // A newer launch that waits has taken over the record's generation and run.
  const [of, at] = record.intent === 'present' ? [removeUpTo, removeRun] : [generation, run];
  return { queue: 'teardown', jobId: `teardown-${hash}-${of}-${at}` };
}

function act(pass: Pass, seen: Judged, entry: SweepEntry): Promise<SweepEntry> {
  return underLease(pass, seen.hash, entry, async (lease) => {
    const record = await pass.inventory.readByHash(seen.hash);
    if (record === undefined) return { ...entry, action: 'gone' };
    const again = await judge(pass, record, await pass.inventory.now(), true, async () => false);
    if (again.verdict !== entry.verdict || record.updatedAt !== seen.updatedAt) return { ...again, action: 'changed' };
    if (again.verdict === 'settle') return settleCreates(pass, lease, record, again);
    const added = await pass.inventory.requeue(lease, again.rule === 'job_ended');
    return added === undefined
      ? { ...again, action: 'changed' }
      : { ...again, action: 'done', evidence: { ...again.evidence, ...added } };
  });
}

/** What a send of long ago left behind is removed by UID; then the intents are closed (I5). */
async function settleCreates(pass: Pass, lease: Lease, record: InstanceRecord, entry: SweepEntry): Promise<SweepEntry> {
  const removed: string[] = [];
  assertSameNamespace(record, pass.cluster);
  const targets = openCreates(record).map(({ kind, nonce }) => ({ kind, nonce, name: derivedName(record, kind) }));
  for (const { kind, nonce, name } of targets) {
    const ours = async (meta: V1ObjectMeta) => adoptable(meta, { nonce }) !== 'foreign';
    if ((await removeAsJudged(pass, lease, kind, { name, mayGo: ours })) === 'deleted') removed.push(`${kind}/${name}`);
  }
  const creates = Object.fromEntries(Object.entries(record.creates).filter(([, intent]) => !intent.open));
  await pass.inventory.write(lease, { set: { creates } });
  return { ...entry, action: 'done', evidence: { ...entry.evidence, removed } };
}

const openCreates = (record: Pick<InstanceRecord, 'creates'>): CreateRecord[] =>
  Object.values(record.creates).filter((intent) => intent.open);
const isHalfWay = ({ state }: Judged): boolean => (halfWay as readonly string[]).includes(state);
/** A create may land this long after it was sent (I5). */
const lateCommitMs = 60_000;

export interface StuckFacts {
  readonly record: Judged;
  /** Somebody has the instance's lease. */
  readonly held: boolean;
  /** Of the job that should be at work on it. */
  readonly job: JobState;
  readonly now: number;
  readonly sighting: Sighting;
  readonly graceSeconds: number;
}

export function judgeStuck(facts: StuckFacts): Verdict {
  const { record, held, job, now } = facts;
  const evidence = { state: record.state, intent: record.intent, generation: record.generation, run: record.run };
  if (held) return keep('somebody_is_on_it');
  if (!isHalfWay(record)) {
    const late = openCreates(record).filter((intent) => now - intent.sentAt >= lateCommitMs);
    if (late.length === 0) return keep('at_rest');
    return due('settle', 'create_never_settled', { ...evidence, creates: late.map((intent) => intent.name) }, facts);
  }
  if (job === 'open') return keep('its_job_is_queued');
  const broken = record.state === 'cleanup_pending' && record.failure?.code === 'invariant_broken';
  if (broken && record.intent === 'present')
    return { rule: 'needs_a_person', verdict: 'report', evidence: { ...evidence, failure: record.failure?.message } };
  return due('requeue', job === 'missing' ? 'job_lost' : 'job_ended', { ...evidence, job }, facts);
}
