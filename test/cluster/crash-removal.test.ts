import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { assertEnd, livePod } from '../support/chaos/end-state.ts';
import { scenarios } from '../support/chaos/scenarios.ts';
import { standby } from '../support/chaos/victim.ts';
import { createNamespace, realKubeconfig } from '../support/real-cluster.ts';
import { createWorld } from '../support/world.ts';

let namespace: { readonly name: string; remove(): Promise<void> };
beforeAll(async () => {
  namespace = await createNamespace('crash-removal');
});
afterAll(async () => namespace?.remove());

/** In the middle: something of the instance is gone already, or made already, and something is not. */
const kills = [
  ['teardown', 'before kube.delete.persistentvolumeclaims#1'],
  ['keepWorkspace', 'after kube.delete.pods#1'],
  ['rollback', 'after kube.delete.pods#1'],
  ['reconnect of a lost Pod', 'after kube.create.pods#1'],
] as const;

describe('a worker killed with -9 on a real Kubernetes', () => {
  it.concurrent.each(kills)(
    'in the middle of a %s (%s): another one ends it as asked, with nothing left over',
    async (name, point) => {
      const scenario = scenarios.find((known) => known.name === name);
      if (scenario === undefined) throw new Error(`there is no scenario "${name}"`);
      // Each has a Redis and an installation of its own, so that all run side by side.
      const world = await createWorld({
        kubeconfig: realKubeconfig(),
        namespace: namespace.name,
        image: 'node:local',
        storageClass: 'immediate',
        config: { installation: `crash-${randomBytes(4).toString('hex')}` },
      });
      try {
        const victim = await standby(world.loaded, scenario.queues);
        const first = await world.worker();
        const before = await scenario.prepare?.(world, name);
        await first.close();
        await victim.start();
        await victim.at(point, 'kill');
        await scenario.ask(world, name, before);
        expect((await victim.dead)[1]).toBe('SIGKILL');
        const leftPod = await livePod(world, name);
        await world.worker();
        // A real API server shows no log of its creates.
        await assertEnd({ world, id: name, scenario, before, leftPod, made: async () => scenario.makes });
        if ((await world.operator.inventory.read(name)) !== undefined) {
          await world.operator.producer.teardown({ version: 1, instanceId: name });
          await world.gone(name);
        }
        expect(await world.leftovers()).toEqual([]);
      } finally {
        await world.stop();
      }
    },
  );
});
