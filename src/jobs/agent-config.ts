import { agentConfigMap } from '../agent/delivery.ts';
import { WindlassError } from '../errors.ts';
import type { Shelf } from '../inventory/shelf.ts';
import { isAlreadyExists } from '../kubernetes/api-error.ts';
import { sharedLabels } from '../kubernetes/ownership.ts';
import type { Cluster } from '../kubernetes/port.ts';
import { fromConfigMap } from './agent-program.ts';
import type { StageContext } from './stage.ts';

/** A map that no worker named for this long is used by no running worker: a few upkeep rounds. */
const inUseSeconds = 150;
const inUseName = (map: string): string => `agent-in-use:${map}`;

/** Tells the sweep of config maps which agent this worker launches with; repeated in every upkeep round. */
export async function reportAgentInUse(shelf: Shelf, installation: string): Promise<void> {
  await shelf.put(inUseName(agentConfigMap(installation).name), true, inUseSeconds);
}

export const isAgentInUse = async (shelf: Shelf, map: string): Promise<boolean> =>
  (await shelf.get(inUseName(map))) !== undefined;

const ensured = new WeakMap<Cluster, Promise<void>>();

/**
 * The agent's ConfigMap: content-addressed and immutable, so that equal content has one name and nobody may change it
 * under a Pod. 'once' asks the cluster at most once per process; 'again' does after a Pod failed to mount it.
 */
export async function ensureAgent(
  context: Pick<StageContext, 'cluster' | 'config' | 'profile'>,
  when: 'once' | 'again',
): Promise<void> {
  if (!fromConfigMap(context.profile.agent)) return;
  const known = ensured.get(context.cluster);
  if (known !== undefined && when === 'once') return known;
  const attempt = createAgent(context.cluster, context.config.installation);
  ensured.set(context.cluster, attempt);
  try {
    await attempt;
  } catch (error) {
    ensured.delete(context.cluster);
    throw error;
  }
}

async function createAgent(cluster: Cluster, installation: string): Promise<void> {
  const map = agentConfigMap(installation);
  // Not the stage's signal: others wait for the same answer.
  const signal = AbortSignal.timeout(30_000);
  const found = await cluster.read('configmaps', map.name, { signal });
  if (found === undefined) {
    const metadata = { name: map.name, namespace: cluster.namespace, labels: sharedLabels(installation, 'agent') };
    try {
      await cluster.create(
        'configmaps',
        { apiVersion: 'v1', kind: 'ConfigMap', metadata, immutable: true, data: map.data },
        { signal },
      );
      return;
    } catch (error) {
      if (!isAlreadyExists(error)) throw error;
    }
  }
  const current = found ?? (await cluster.read('configmaps', map.name, { signal }));
  if (current?.data?.['agent.mjs'] !== map.data['agent.mjs']) {
    throw new WindlassError('name_conflict', `The ConfigMap ${map.name} does not hold what its name stands for.`, {
      evidence: { name: map.name },
    });
  }
}
