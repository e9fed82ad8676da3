import { afterAll, beforeAll, expect, it } from 'vitest';
import { expired } from '../../src/jobs/sweeps/expired.ts';
import type { Cluster } from '../../src/kubernetes/port.ts';
import { type EmbeddedCluster, startCluster } from '../support/cluster.ts';
import { resumeSteps } from '../support/resume-steps.ts';
import { passOn } from '../support/sweep-context.ts';
import { sweepsByHand } from '../support/sweeps-by-hand.ts';
import { createWorld, type World } from '../support/world.ts';

let embedded: EmbeddedCluster;
let world: World;
const idleSeconds = 3;
beforeAll(async () => {
  embedded = await startCluster();
  world = await createWorld({
    kubeconfig: embedded.kubeconfig,
    namespace: 'default',
    image: 'node:24',
    config: { sweeps: sweepsByHand },
  });
  await world.worker();
});
afterAll(async () => {
  await world?.stop();
  await embedded?.close();
});

/** Passes until one found the instance idle: before its time is up it is not even looked into. */
async function foundIdle(id: string, view: Cluster = world.cluster): Promise<string | undefined> {
  let action: string | undefined;
  const found = async () => {
    const { entries } = await passOn(world, expired, view);
    action = entries.find(({ name }) => name === id)?.action;
    return action;
  };
  await expect.poll(found, { timeout: 30_000, interval: 200 }).toBeDefined();
  return action;
}
const launch = (id: string) => resumeSteps(world).launch(id, { lifetime: { idleSeconds, onIdle: 'suspend' } });

it('an instance that nothing happens in is suspended as agreed, and its claim is kept', async () => {
  const { workspace } = await launch('idle');
  expect(await foundIdle('idle')).toBe('done');
  const record = await world.until('idle', (current) => current?.state === 'suspended');
  expect(record?.workspace?.claimUid).toBe(workspace?.claimUid);
});

it('one that is used between the look into it and what is done about it lives on', async () => {
  await launch('used');
  let looks = 0;
  const view: Cluster = {
    ...world.cluster,
    async forward(pod, port, options) {
      const forward = await world.cluster.forward(pod, port, options);
      looks += 1;
      if (looks > 1) return forward;
      const close = async () => {
        await forward.close();
        await world.exec('used', ['true']);
      };
      return { ...forward, close };
    },
  };
  expect(await foundIdle('used', view)).toBe('changed');
  expect((await world.operator.inventory.read('used'))?.state).toBe('ready');
});
