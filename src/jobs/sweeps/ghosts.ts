import type { InstanceRecord } from '../../inventory/types.ts';
import { keys } from '../../kubernetes/ownership.ts';
import { goneLoss } from '../../kubernetes/pod-loss.ts';
import type { SweepEntry } from '../context.ts';
import { lossWrite } from '../loss.ts';
import { retainClaim } from '../retain.ts';
import { ownedKinds, ownedPages } from './owned.ts';
import { type Found, type Pass, type SweepPlan, underLease } from './pass.ts';
import { aboutRecord, recordPages, requestRemoval } from './records.ts';
import { due, keep, type Sighting, type Verdict } from './verdict.ts';

/** Records whose Pod is gone (lost), or whose Pod and claim are gone (ghosts). */
export const ghosts: SweepPlan = {
  kind: 'ghosts',
  breaker: true,
  async *look(pass) {
    // Only what the verdict needs is kept of each object: all their metadata would be hundreds of megabytes.
    const there: Objects = new Map();
    for (const kind of ownedKinds) {
      for await (const page of ownedPages(pass, kind))
        for (const meta of page.items) there.set(meta.uid ?? '', meta.annotations?.[keys.retained] === 'true');
    }
    // Of before the records are read: one written since is of age 0.
    const now = await pass.inventory.now();
    for await (const page of recordPages(pass, ['ready', 'lost', 'suspended'], judged)) {
      const found = await Promise.all(page.map((record) => find(pass, record, there, now)));
      yield* found.filter(({ entry }) => entry.verdict !== 'keep');
    }
  },
};

/** The fields of a record that the look needs; what is done is decided on the whole record. */
export const judged = [
  'hash',
  'instanceId',
  'state',
  'generation',
  'run',
  'pod',
  'workspace',
  'exitCode',
  'updatedAt',
  'agent',
] as const;
type Judged = Pick<InstanceRecord, (typeof judged)[number]>;
/** UID → whether it is marked as kept on purpose. */
type Objects = Map<string, boolean>;

async function find(pass: Pass, record: Judged, there: Objects, now: number): Promise<Found> {
  const key = `${record.hash} ${record.generation} ${record.run}`;
  const pod = record.pod !== null && there.has(record.pod.uid);
  const claimUid = record.workspace?.claimUid ?? '';
  const claim = claimUid !== '' && (there.has(claimUid) || (!pod && (await claimIsThere(pass, record))));
  const kept = there.get(claimUid) === true;
  const about = aboutRecord(record, now);
  const sighting = { before: pass.seenBefore(key), ageSeconds: about.ageSeconds };
  const entry = { ...about, ...judgeGhost({ record, pod, claim, kept, sighting, graceSeconds: pass.settings.graceSeconds }) };
  return { key, entry, act: () => act(pass, record, entry) };
}

/** By name, whatever its labels: a claim that Windlass did not make is in no listing of ours. */
async function claimIsThere(pass: Pass, record: Pick<InstanceRecord, 'workspace'>): Promise<boolean> {
  const recorded = record.workspace;
  if (recorded === null || recorded.claimUid === '') return false;
  const claim = await pass.cluster.read('persistentvolumeclaims', recorded.claimName, { signal: pass.signal });
  return claim?.metadata?.uid === recorded.claimUid;
}

/** A record that was written after the listing names a Pod that the listing cannot have: only a GET under the lease decides. */
function act(pass: Pass, seen: Judged, entry: SweepEntry): Promise<SweepEntry> {
  return underLease(pass, seen.hash, entry, async (lease) => {
    const record = await pass.inventory.readByHash(seen.hash);
    if (record === undefined) return { ...entry, action: 'gone' };
    const pod = await podIsThere(pass, record);
    const claim = await claimIsThere(pass, record);
    const sighting = { before: true, ageSeconds: entry.ageSeconds };
    const again = {
      ...entry,
      ...judgeGhost({ record, pod, claim, kept: false, sighting, graceSeconds: pass.settings.graceSeconds }),
    };
    if (again.verdict !== entry.verdict || record.updatedAt !== seen.updatedAt) return { ...again, action: 'changed' };
    if (again.verdict === 'teardown')
      return requestRemoval(pass, record, again, { keepWorkspace: false, reason: 'its Pod and its workspace are gone' });
    await retainClaim(pass.cluster, record, lease.assertHeld, pass.signal);
    if (again.verdict === 'settle' || record.pod === null) return { ...again, action: 'done' };
    const loss = goneLoss(record.pod, pass.cluster.pods.eventsOf(record.pod.uid));
    await pass.inventory.write(lease, lossWrite(record, loss, await pass.inventory.now()));
    return { ...again, action: 'done' };
  });
}

async function podIsThere(pass: Pass, record: InstanceRecord): Promise<boolean> {
  if (record.pod === null) return false;
  const pod = await pass.cluster.read('pods', record.pod.name, { signal: pass.signal });
  return pod?.metadata?.uid === record.pod.uid;
}

export interface GhostFacts {
  readonly record: Judged;
  readonly pod: boolean;
  readonly claim: boolean;
  /** The claim is marked as kept on purpose. */
  readonly kept: boolean;
  readonly sighting: Sighting;
  readonly graceSeconds: number;
}

/** A lost Pod is only written down, so a second sighting is enough; a record is given up past the grace as well. */
export function judgeGhost(facts: GhostFacts): Verdict {
  const { record, pod, claim, kept } = facts;
  if (record.state !== 'ready' && record.state !== 'lost' && record.state !== 'suspended')
    return keep('in_other_hands', { state: record.state });
  if (pod) return keep('pod_is_there');
  // Its result is kept for its time, however soon the cluster collects finished Pods. Beside an agent a command ends, not the Pod.
  if (record.state === 'ready' && (record.exitCode ?? null) !== null && (record.agent ?? null) === null) return keep('finished');
  const evidence = { state: record.state, pod: record.pod?.uid ?? null, claim: record.workspace?.claimUid ?? null };
  if (!claim) return due('teardown', 'nothing_left', evidence, facts);
  if (record.state === 'lost' && record.workspace?.created && !kept)
    return { rule: 'claim_not_marked', verdict: 'settle', evidence };
  if (record.state !== 'ready') return keep('workspace_is_there');
  return due('mark_lost', 'pod_gone', evidence, { ...facts, graceSeconds: 0 });
}
