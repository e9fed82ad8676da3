import type { V1Container, V1ObjectMeta, V1Pod } from '@kubernetes/client-node';
import { agentConfigMap } from '../../agent/delivery.ts';
import { keys } from '../../kubernetes/ownership.ts';
import { isAgentInUse } from '../agent-config.ts';
import type { SweepEntry } from '../context.ts';
import { snapshotMap } from '../snapshots.ts';
import { ahead } from './ahead.ts';
import { ownedPages } from './owned.ts';
import { ageSeconds, type Found, type Pass, type SweepPlan, underLease } from './pass.ts';
import { removeAsJudged } from './removal.ts';
import { due, keep, type Sighting, type Verdict } from './verdict.ts';

/** Maps that instances share (the agent, recipes as accepted), of versions that nothing uses any more. */
export const configMaps: SweepPlan = {
  kind: 'config-maps',
  breaker: true,
  async *look(pass) {
    const users = once(() => findUsers(pass));
    for await (const page of ownedPages(pass, 'configmaps')) {
      for (const meta of page.items) {
        const key = meta.uid ?? '';
        const entry = await judge(pass, meta, page.serverTime, pass.seenBefore(key), users);
        const found: Found = { key, entry, act: () => removeMap(pass, entry) };
        yield found;
      }
    }
  },
};

type Users = () => Promise<ReadonlySet<string>>;

/** Asked only when there is a map old enough to go: it reads every Pod and every record. */
function once<T>(ask: () => Promise<T>): () => Promise<T> {
  let asked: Promise<T> | undefined;
  return () => {
    asked ??= ask();
    return asked;
  };
}

async function judge(pass: Pass, meta: V1ObjectMeta, now: number, before: boolean, users: Users): Promise<SweepEntry> {
  const name = meta.name ?? '';
  const age = ageSeconds(new Date(meta.creationTimestamp ?? now).getTime(), now);
  const about = { kind: 'configmaps', name, uid: meta.uid ?? '', ageSeconds: age, action: 'none' } as const;
  const asked = { name, current: agentConfigMap(pass.config.installation).name, deleting: meta.deletionTimestamp !== undefined };
  const known = {
    ...asked,
    sighting: { before, ageSeconds: age },
    graceSeconds: Math.max(minAgeSeconds, pass.settings.graceSeconds),
  };
  const first = judgeConfigMap({ ...known, usedBy: undefined });
  if (first.verdict === 'keep' || first.verdict === 'foreign' || first.evidence.waitsFor === 'grace')
    return { ...about, ...first };
  const usedBy = (await isAgentInUse(pass.shelf, name)) ? 'worker' : (await users()).has(name) ? 'pod or record' : undefined;
  return { ...about, ...judgeConfigMap({ ...known, usedBy }) };
}

/** Everybody's Pods, not only ours: what is named somewhere is alive (I20). */
async function findUsers(pass: Pass): Promise<ReadonlySet<string>> {
  const names = new Set<string>();
  for await (const page of ahead(pass.cluster.list('pods', '', { signal: pass.signal }))) {
    for (const pod of page) for (const name of mapsNamedBy(pod)) names.add(name);
  }
  let cursor: string | undefined;
  do {
    const page = await pass.inventory.listFields(['snapshot'], { limit: 500, ...(cursor === undefined ? {} : { cursor }) });
    for (const record of page.items) names.add(snapshotMap(record.snapshot));
    cursor = page.nextCursor ?? undefined;
  } while (cursor !== undefined);
  return names;
}

/** Every ConfigMap that a Pod names: in volumes, projected volumes, env and envFrom, and as the recipe it was made from. */
export function mapsNamedBy(pod: V1Pod): string[] {
  const { volumes = [], containers = [], initContainers = [], ephemeralContainers = [] } = pod.spec ?? { containers: [] };
  const inVolumes = volumes.flatMap((volume) => [
    volume.configMap?.name,
    ...(volume.projected?.sources ?? []).map((source) => source.configMap?.name),
  ]);
  const all: readonly Pick<V1Container, 'env' | 'envFrom'>[] = [...containers, ...initContainers, ...ephemeralContainers];
  const inEnv = all.flatMap(({ env = [], envFrom = [] }) => [
    ...env.map((variable) => variable.valueFrom?.configMapKeyRef?.name),
    ...envFrom.map((source) => source.configMapRef?.name),
  ]);
  const snapshot = pod.metadata?.annotations?.[keys.snapshot];
  return [...inVolumes, ...inEnv, snapshot === undefined ? undefined : snapshotMap(snapshot)].filter(
    (name) => name !== undefined,
  );
}

function removeMap(pass: Pass, entry: SweepEntry): Promise<SweepEntry> {
  return underLease(pass, `map-${entry.name}`, entry, async (lease) => {
    let again = entry;
    const action = await removeAsJudged(pass, lease, 'configmaps', {
      name: entry.name,
      uid: entry.uid,
      async mayGo(meta, now) {
        again = await judge(pass, meta, now, true, () => findUsers(pass));
        return again.verdict === 'delete';
      },
    });
    return { ...again, action };
  });
}

/** A worker of an older version may have been away for a while and still make Pods that name its map. */
const minAgeSeconds = 86_400;

export interface MapFacts {
  readonly name: string;
  /** The agent's map of this worker's own version. */
  readonly current: string;
  readonly deleting: boolean;
  readonly usedBy: string | undefined;
  readonly sighting: Sighting;
  readonly graceSeconds: number;
}

export function judgeConfigMap(facts: MapFacts): Verdict {
  const { name, current, deleting, usedBy } = facts;
  if (/^windlass-epoch-[0-9a-f]{20}$/.test(name)) return keep('epoch');
  if (!/^windlass-(agent|profile)-[0-9a-f]{40}$/.test(name)) return { rule: 'not_named_by_us', verdict: 'foreign', evidence: {} };
  if (deleting) return keep('being_deleted');
  if (name === current) return keep('current_version');
  if (usedBy !== undefined) return keep('in_use', { usedBy });
  return due('delete', 'nothing_uses_it', {}, facts);
}
