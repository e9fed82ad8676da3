import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { SweepReport } from '../../src/jobs/context.ts';
import { configMaps } from '../../src/jobs/sweeps/config-maps.ts';
import { orphans } from '../../src/jobs/sweeps/orphans.ts';
import type { SweepPlan } from '../../src/jobs/sweeps/pass.ts';
import { ownedAnnotations, ownedLabels, sharedLabels } from '../../src/kubernetes/ownership.ts';
import type { Cluster } from '../../src/kubernetes/port.ts';
import { claimName, instanceHash, podName } from '../../src/names.ts';
import { createNamespace, realKubeconfig } from '../support/real-cluster.ts';
import { recoverFlow } from '../support/recover-flow.ts';
import { passOn } from '../support/sweep-context.ts';
import { sweepsByHand } from '../support/sweeps-by-hand.ts';
import { createWorld, type World } from '../support/world.ts';

const day = 26 * 3_600_000;
/** The same cluster by a clock that is a day ahead: nothing on it can be made older. */
const aDayLater = (cluster: Cluster): Cluster => ({
  ...cluster,
  clockSkewMs: () => cluster.clockSkewMs() + day,
  async *listMetadata(kind, selector, options) {
    for await (const page of cluster.listMetadata(kind, selector, options)) yield { ...page, serverTime: page.serverTime + day };
  },
});

describe('on a real Kubernetes', () => {
  let world: World;
  let namespace: Awaited<ReturnType<typeof createNamespace>>;
  beforeAll(async () => {
    namespace = await createNamespace('sweeps');
    world = await createWorld({
      kubeconfig: realKubeconfig(),
      namespace: namespace.name,
      image: 'node:local',
      config: { sweeps: sweepsByHand },
    });
    await world.worker();
  });
  afterAll(async () => {
    await world?.stop();
    await namespace?.remove();
  });

  const marked = (instanceId: string, name: (hash: string) => string) => {
    const hash = instanceHash('test', instanceId);
    const identity = { installation: 'test', instanceId, hash, owner: 'ann', cluster: 'default', profile: 'node' };
    const marks = { nonce: 'f'.repeat(64), generation: 100, specHash: 'x' };
    return { name: name(hash), labels: ownedLabels(identity), annotations: ownedAnnotations({ ...identity, ...marks }) };
  };
  const leakPod = (instanceId: string) => {
    const securityContext = { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } };
    const program = { image: 'node:local', imagePullPolicy: 'Never', command: ['sleep', '600'] };
    const secure = { runAsNonRoot: true, runAsUser: 1000, seccompProfile: { type: 'RuntimeDefault' } };
    const containers = [{ name: 'agent', ...program, securityContext }];
    const ending = { terminationGracePeriodSeconds: 1, automountServiceAccountToken: false };
    return world.cluster.create('pods', {
      metadata: marked(instanceId, podName),
      spec: { containers, securityContext: secure, ...ending },
    });
  };
  const leakClaim = (instanceId: string) =>
    world.cluster.create('persistentvolumeclaims', {
      metadata: marked(instanceId, claimName),
      spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Mi' } } },
    });
  const pass = (plan: SweepPlan, view?: Cluster) => passOn(world, plan, view);
  const actionsOf = ({ entries }: SweepReport) => Object.fromEntries(entries.map(({ name, action }) => [name, action]));

  it('C39: one leaked object of every kind is found, and removed in the second pass', async () => {
    await leakPod('leaked');
    await leakClaim('leaked');
    const map = `windlass-agent-${'a'.repeat(40)}`;
    await world.cluster.create('configmaps', { metadata: { name: map, labels: sharedLabels('test', 'agent') }, data: {} });
    const hash = instanceHash('test', 'leaked');

    expect(await pass(orphans)).toMatchObject({ deleted: 0 });
    expect(await world.cluster.read('pods', podName(hash))).toBeDefined();
    const second = actionsOf(await pass(orphans));
    expect(second).toEqual({ [podName(hash)]: 'deleted', [claimName(hash)]: 'deleted' });
    await expect.poll(() => world.leftovers(), { timeout: 60_000 }).toEqual([]);

    const entryOf = (report: SweepReport) => report.entries.find((entry) => entry.name === map);
    expect(entryOf(await pass(configMaps))).toMatchObject({ verdict: 'watch', evidence: { waitsFor: 'grace' } });
    expect(entryOf(await pass(configMaps, aDayLater(world.cluster)))).toMatchObject({ action: 'deleted' });
    expect(await world.cluster.read('configmaps', map)).toBeUndefined();
  }, 120_000);

  it.each(['read', 'remove'] as const)(
    'a same-name replacement between the list and the delete is left alone (it comes right before the %s)',
    async (moment) => {
      const instanceId = `replaced before ${moment}`;
      const first = await leakClaim(instanceId);
      const name = first.metadata?.name ?? '';
      await pass(orphans);
      let replacement: string | undefined;
      const replace = async (asked: string) => {
        if (asked !== name || replacement !== undefined) return;
        replacement = '';
        await world.cluster.remove('persistentvolumeclaims', name, { uid: first.metadata?.uid ?? '' });
        await expect.poll(() => world.cluster.read('persistentvolumeclaims', name), { timeout: 30_000 }).toBeUndefined();
        replacement = (await leakClaim(instanceId)).metadata?.uid ?? '';
      };
      const view: Cluster = {
        ...world.cluster,
        async read(kind, asked, options) {
          if (moment === 'read') await replace(asked);
          return world.cluster.read(kind, asked, options);
        },
        async remove(kind, asked, options) {
          await replace(asked);
          return world.cluster.remove(kind, asked, options);
        },
      };
      await pass(orphans, view);
      const there = await world.cluster.read('persistentvolumeclaims', name);
      expect(replacement).not.toBe(first.metadata?.uid);
      expect(there?.metadata?.uid).toBe(replacement);
      expect(there?.metadata?.deletionTimestamp).toBeUndefined();
      await world.cluster.remove('persistentvolumeclaims', name, { uid: there?.metadata?.uid ?? '' });
    },
    120_000,
  );

  it('C36: Redis flushed under ten live instances: all recovered, the same Pods and claims, commands run in each', async () => {
    await recoverFlow(world, 10);
  }, 300_000);
});
