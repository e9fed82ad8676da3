import { afterAll, beforeAll, describe, it } from 'vitest';
import { crashFlow, killPoints } from '../support/crash-flow.ts';
import { createNamespace, realKubeconfig } from '../support/real-cluster.ts';
import { createWorld, type World } from '../support/world.ts';

describe('a worker killed on a real Kubernetes', () => {
  let world: World;
  let removeNamespace: () => Promise<void>;

  beforeAll(async () => {
    const namespace = await createNamespace('crash');
    removeNamespace = namespace.remove;
    world = await createWorld({
      kubeconfig: realKubeconfig(),
      namespace: namespace.name,
      image: 'node:local',
      storageClass: 'immediate',
    });
  });
  afterAll(async () => {
    await world?.stop();
    await removeNamespace?.();
  });

  it.each(killPoints)('%s: another worker finishes with the same Pod', async (point) => {
    await crashFlow(world, `crash ${point}`, point);
  });
});
