import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { ownedAnnotations, ownedLabels, sharedLabels } from '../../src/kubernetes/ownership.ts';
import { claimName, instanceHash, podName } from '../../src/names.ts';
import { createNamespace, realKubeconfig } from '../support/real-cluster.ts';
import { recoverFlow, sweepReport } from '../support/recover-flow.ts';
import { createWorld, type World } from '../support/world.ts';

/** Once a year: a scheduled pass at the start of the worker would be the first of the two sightings. */
const atOnce = { cron: '0 0 1 1 *', graceSeconds: 0 };
const sweeps = Object.fromEntries(['orphans', 'ghosts', 'expired', 'config-maps', 'stuck'].map((kind) => [kind, atOnce]));

describe('on a real Kubernetes', () => {
  let world: World;
  let namespace: Awaited<ReturnType<typeof createNamespace>>;
  beforeAll(async () => {
    namespace = await createNamespace('sweeps');
    world = await createWorld({
      kubeconfig: realKubeconfig(),
      namespace: namespace.name,
      image: 'node:local',
      config: { sweeps },
    });
    await world.worker();
  });
  afterAll(async () => {
    await world?.stop();
    await namespace?.remove();
  });

  it('C39: a leaked Pod and claim are removed in the second pass; a shared map is only watched until it is a day old', async () => {
    const hash = instanceHash('test', 'leaked');
    const identity = { installation: 'test', instanceId: 'leaked', hash, owner: 'ann', cluster: 'default', profile: 'node' };
    const marks = { nonce: 'f'.repeat(64), generation: 100, specHash: 'x' };
    const meta = (name: string) => ({
      name,
      labels: ownedLabels(identity),
      annotations: ownedAnnotations({ ...identity, ...marks }),
    });
    const securityContext = { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } };
    const container = {
      name: 'agent',
      image: 'node:local',
      imagePullPolicy: 'Never',
      command: ['sleep', '600'],
      securityContext,
    };
    const secure = { runAsNonRoot: true, runAsUser: 1000, seccompProfile: { type: 'RuntimeDefault' } };
    await world.cluster.create('pods', {
      metadata: meta(podName(hash)),
      spec: {
        containers: [container],
        securityContext: secure,
        terminationGracePeriodSeconds: 1,
        automountServiceAccountToken: false,
      },
    });
    await world.cluster.create('persistentvolumeclaims', {
      metadata: meta(claimName(hash)),
      spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Mi' } } },
    });
    const map = `windlass-agent-${'a'.repeat(40)}`;
    await world.cluster.create('configmaps', { metadata: { name: map, labels: sharedLabels('test', 'agent') }, data: {} });

    expect(await sweepReport(world, 'orphans')).toMatchObject({ deleted: 0 });
    expect(await world.cluster.read('pods', podName(hash))).toBeDefined();
    expect(await sweepReport(world, 'orphans')).toMatchObject({ deleted: 2 });
    await expect.poll(() => world.leftovers(), { timeout: 60_000 }).toEqual([]);
    const watched = (await sweepReport(world, 'config-maps'))?.entries.find((entry) => entry.name === map);
    expect(watched).toMatchObject({ verdict: 'watch', evidence: { waitsFor: 'grace' } });
  }, 120_000);

  it('C36: Redis flushed under ten live instances: all recovered, the same Pods and claims, commands run in each', async () => {
    await recoverFlow(world, 10);
  }, 300_000);
});
