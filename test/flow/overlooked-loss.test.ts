import { afterAll, beforeAll, expect, it } from 'vitest';
import { ghosts } from '../../src/jobs/sweeps/ghosts.ts';
import type { Cluster } from '../../src/kubernetes/port.ts';
import type { LocalCluster } from '../../src/local-cluster/types.ts';
import { lightProfiles, startLightCluster } from '../support/light-cluster.ts';
import { passOn } from '../support/sweep-context.ts';
import { sweepsByHand } from '../support/sweeps-by-hand.ts';
import { createWorld, type World } from '../support/world.ts';

let light: LocalCluster;
let world: World;
beforeAll(async () => {
  light = await startLightCluster();
  const config = { profiles: lightProfiles, sweeps: sweepsByHand, recovery: { onLost: 'rebuild' } };
  world = await createWorld({ kubeconfig: light.kubeconfig, namespace: 'default', image: 'node:24', config });
  await world.worker();
});
afterAll(async () => {
  await world?.stop();
  await light?.close();
});

it('recovery.onLost: rebuild acts on a loss that a sweep wrote, though no Pod changes and no worker starts', async () => {
  await world.operator.producer.launch({ version: 1, instanceId: 'swept', profile: 'node' });
  const before = await world.ready('swept');
  // To the sweep alone the Pod is gone: the watch of the worker has nothing to tell.
  const view = {
    ...world.cluster,
    async *listMetadata(kind, ...asked) {
      if (kind !== 'pods') yield* world.cluster.listMetadata(kind, ...asked);
    },
    read: async (kind, ...asked) => (kind === 'pods' ? undefined : world.cluster.read(kind, ...asked)),
  } as Cluster;
  await passOn(world, ghosts, view);
  expect((await passOn(world, ghosts, view)).entries).toMatchObject([{ name: 'swept', verdict: 'mark_lost', action: 'done' }]);
  const after = await world.until('swept', (record) => record?.state === 'ready' && record.run === 2, 40);
  expect(after?.pod?.uid).toBe(before.pod?.uid);
  const types = (await world.operator.inventory.events('swept', 0, 100)).map(({ type }) => type);
  expect(types.filter((type) => type === 'lost' || type === 'reconnected')).toEqual(['lost', 'reconnected']);
});
