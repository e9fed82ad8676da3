import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type EmbeddedCluster, startCluster } from '../support/cluster.ts';
import { createWorld, type World } from '../support/world.ts';

let embedded: EmbeddedCluster;
let world: World;
const limits = { perOwner: 2, maxInstances: 3 };

beforeAll(async () => {
  embedded = await startCluster();
  world = await createWorld({ kubeconfig: embedded.kubeconfig, namespace: 'default', image: 'node:24', config: { limits } });
  await Promise.all([world.worker(), world.worker()]);
});
afterAll(async () => {
  await world?.stop();
  await embedded?.close();
});

const launch = (instanceId: string, owner: string) =>
  world.operator.producer.launch({ version: 1, instanceId, owner, profile: 'scratch' });
const tearDown = (instanceId: string) => world.operator.producer.teardown({ version: 1, instanceId }, { anyOwner: true });

async function readyOf(owner: string): Promise<string[]> {
  const { items } = await world.operator.inventory.list({ states: ['ready'], owner, limit: 500 });
  return items.map((record) => record.instanceId);
}

describe('launches over a limit', () => {
  const crowd = Array.from({ length: 200 }, (_, index) => `crowd-${index}`);

  it('C13 C87 wait without a slot, let another owner pass, and the next one starts as soon as a place is free', async () => {
    await Promise.all(crowd.map((id) => launch(id, 'crowd')));
    await expect.poll(() => readyOf('crowd'), { timeout: 60_000 }).toHaveLength(limits.perOwner);
    // All of the crowd has been told to wait, or stands in the queue behind who comes now.
    await launch('other-0', 'other');
    const passed = await world.ready('other-0', 20);
    expect(passed.attemptsLeft).toBe(3);

    for (let round = 0; round < 3; round++) {
      const [oldest = ''] = await readyOf('crowd');
      await tearDown(oldest);
      await world.gone(oldest);
      // Far below the 30 s after which a waiter comes back by itself.
      await expect.poll(() => readyOf('crowd'), { timeout: 12_000 }).toHaveLength(limits.perOwner);
      expect((await world.leftovers()).length).toBe(limits.maxInstances);
    }

    // The cluster is full for a third owner, too; the owner's limit of the crowd must not swallow the place that gets free.
    await launch('third-0', 'third');
    await world.until('third-0', (record) => record !== undefined);
    await tearDown('other-0');
    await world.ready('third-0', 12);

    const { items } = await world.operator.inventory.list({ limit: 500 });
    expect(items.every((record) => record.attemptsLeft === 3 && record.crashes <= 1 && record.failure === null)).toBe(true);
    await Promise.all(items.map((record) => tearDown(record.instanceId)));
    await Promise.all(items.map((record) => world.gone(record.instanceId, 80)));
    expect(await world.leftovers()).toEqual([]);

    // Counted from what lives: after all that, the limits are as they were.
    await Promise.all([launch('again-0', 'crowd'), launch('again-1', 'crowd')]);
    await Promise.all([world.ready('again-0'), world.ready('again-1')]);
    await Promise.all(['again-0', 'again-1'].map(tearDown));
    await Promise.all(['again-0', 'again-1'].map((id) => world.gone(id)));
  }, 240_000);
});
