import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { LocalCluster } from '../../src/local-cluster/types.ts';
import { lightProfiles, startLightCluster } from '../support/light-cluster.ts';
import { createWorld, type World } from '../support/world.ts';

let embedded: LocalCluster;
let world: World;
const limits = { perOwner: 2, maxInstances: 3 };
const sleepers = Array.from({ length: 20 }, (_, at) => `sleeper ${at}`);
const others = ['other 0', 'other 1', 'third 0'];

beforeAll(async () => {
  embedded = await startLightCluster();
  world = await createWorld({
    kubeconfig: embedded.kubeconfig,
    namespace: 'default',
    image: 'node:24',
    config: { limits, profiles: lightProfiles },
  });
  await world.worker();
});
afterAll(async () => {
  await world?.stop();
  await embedded?.close();
});

const launch = (instanceId: string, more: object = {}) =>
  world.operator.producer.launch({ version: 1, instanceId, owner: instanceId.split(' ')[0], profile: 'node', ...more });
const tearDown = (instanceId: string, more: object = {}) =>
  world.operator.producer.teardown({ version: 1, instanceId, ...more }, { anyOwner: true });
const suspended = (id: string) => world.until(id, (record) => record?.state === 'suspended' && record.intent === 'suspended');

describe('waking what was suspended', () => {
  it('C20 on a full cluster gives each up as it was, with its workspace; never more than the limit of an owner start', async () => {
    for (const id of sleepers) {
      await launch(id);
      await world.ready(id);
      await tearDown(id, { keepWorkspace: true });
      await suspended(id);
    }
    const claims = await Promise.all(sleepers.map(async (id) => (await suspended(id))?.workspace?.claimUid));
    for (const id of others) await launch(id);
    for (const id of others) await world.ready(id);

    await Promise.all(sleepers.map((id) => launch(id, { failFast: true })));
    for (const [at, id] of sleepers.entries()) {
      const record = await world.until(id, (current) => current?.failure?.code === 'cluster_saturated');
      const back = await world.until(id, (current) => current?.state === 'suspended');
      expect(back).toMatchObject({ workspace: { claimUid: claims[at] }, pod: null });
      expect(record?.generation).toBe(back?.generation);
    }
    expect((await world.leftovers()).filter((name) => name.startsWith('pods/'))).toHaveLength(others.length);

    // With places free, as many as the owner may have start; the rest wait, suspended as they were.
    for (const id of others) await tearDown(id);
    for (const id of others) await world.gone(id);
    await Promise.all(sleepers.map((id) => launch(id)));
    const ready = async () => (await world.operator.inventory.list({ states: ['ready'], limit: 100 })).items.length;
    await expect.poll(ready, { timeout: 60_000 }).toBe(limits.perOwner);
    expect((await world.leftovers()).filter((name) => name.startsWith('pods/'))).toHaveLength(limits.perOwner);
    for (const id of sleepers) await tearDown(id);
    for (const id of sleepers) await world.gone(id);
    expect(await world.leftovers()).toEqual([]);
  }, 240_000);
});
