import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Scenario, scenarios } from '../support/chaos/scenarios.ts';
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

const shared = scenarios.find(({ name }) => name === 'reconnect of a lost Pod') as Scenario;
/** With commands that the small image of this cluster has. */
const reconnect: Scenario = {
  ...shared,
  async end(world, id, before, died) {
    const record = await world.ready(id);
    expect(record).toMatchObject({ rebuilds: 1, run: 2, workspace: { claimUid: before?.workspace?.claimUid } });
    // What the killed worker made and could not write down any more.
    const uid = (await world.cluster.read('pods', record.pod?.name ?? ''))?.metadata?.uid;
    expect(record.pod?.uid).toBe(uid);
    expect(uid).not.toBe(before?.pod?.uid);
    if (died?.pod) expect(uid).toBe(died.pod.uid);
    expect(await world.leftovers()).toHaveLength(2);
    const said = await world.exec(id, ['/bin/sh', '-c', 'printf %s "$TOKEN"']);
    expect(said).toMatchObject({ exitCode: 0, stdout: 's3cr3t' });
  },
};

describe('a worker killed with -9 on a real Kubernetes', () => {
  it.concurrent.each(kills)(
    'in the middle of a %s (%s): another one ends it as asked, with nothing left over',
    async (name, point) => {
      const scenario = name === reconnect.name ? reconnect : scenarios.find((known) => known.name === name);
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
        const before = await scenario.prepare(world, name);
        await first.close();
        await victim.start();
        await victim.at(point, 'kill');
        await scenario.ask(world, name, before);
        expect((await victim.dead)[1]).toBe('SIGKILL');
        const died = await world.operator.inventory.read(name);
        await world.worker();
        await scenario.end(world, name, before, died);
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
