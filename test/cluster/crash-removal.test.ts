import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Before, type Scenario, scenarios, secret } from '../support/chaos/scenarios.ts';
import { standby } from '../support/chaos/victim.ts';
import { createNamespace, realKubeconfig } from '../support/real-cluster.ts';
import { createWorld, type World } from '../support/world.ts';

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

const objectsAt = { ready: 2, suspended: 1, failed: 0, gone: 0 } as const;

async function assertEnded(world: World, id: string, scenario: Scenario, before: Before): Promise<void> {
  const record = await world.until(id, (current) => (current?.state ?? 'gone') === scenario.ending);
  expect(await world.leftovers()).toHaveLength(objectsAt[scenario.ending]);
  scenario.check?.(record, before);
  if (scenario.ending !== 'ready') return;
  expect((await world.cluster.read('pods', record?.pod?.name ?? ''))?.metadata?.uid).toBe(record?.pod?.uid);
  // With commands that the small image of this cluster has.
  expect(await world.exec(id, ['/bin/sh', '-c', 'printf %s "$TOKEN"'])).toMatchObject({ exitCode: 0, stdout: secret });
}

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
        await world.worker();
        await assertEnded(world, name, scenario, before);
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
