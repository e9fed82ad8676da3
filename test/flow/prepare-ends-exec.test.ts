import { afterAll, beforeAll, expect, it } from 'vitest';
import { type FaultyCluster, startFaultyCluster } from '../support/fault-plan.ts';
import { createWorld, type World } from '../support/world.ts';

let cluster: FaultyCluster;
let world: World;

beforeAll(async () => {
  cluster = await startFaultyCluster();
  world = await createWorld({ kubeconfig: cluster.kubeconfig, namespace: 'default', image: 'node:24' });
  await world.worker();
});
afterAll(async () => {
  await world?.stop();
  await cluster?.close();
});

// The interleaving: the marker is there, prepare fails and ends the container, and the exec that brought the marker is cut off.
it('a prepare step that fails before its bootstrap exec has reported is the failure, and no second attempt is made', async () => {
  const id = 'quick failure';
  const cutOff = { verb: 'create', resource: 'pods', subresource: 'exec', fault: 'exec_no_status' };
  const record = await cluster.withFaults([cutOff], async () => {
    await world.operator.producer.launch({ version: 1, instanceId: id, profile: 'scratch', prepare: 'exit 9' });
    return world.until(id, (current) => current?.state === 'failed', 80);
  });
  expect(record?.failure).toMatchObject({ code: 'prepare_failed', stage: 'bootstrap' });
  const events = await world.operator.inventory.events(id, 0, 500);
  expect(events.filter(({ type }) => type === 'failed')).toHaveLength(1);
  expect(JSON.stringify(events)).not.toContain('exec_lost');
  expect(await world.leftovers()).toEqual([]);
});
