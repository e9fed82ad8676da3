import { randomBytes } from 'node:crypto';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { standby, type Victim } from '../support/chaos/victim.ts';
import { type FaultyCluster, startFaultyCluster } from '../support/fault-plan.ts';
import { createWorld, type World } from '../support/world.ts';

let embedded: FaultyCluster;
let world: World;
let victim: Victim;
beforeAll(async () => {
  embedded = await startFaultyCluster();
  const config = { installation: `late-${randomBytes(4).toString('hex')}` };
  world = await createWorld({ kubeconfig: embedded.kubeconfig, namespace: 'default', image: 'node:24', config });
  victim = await standby(world.loaded, 'launch,teardown');
  await victim.start();
});
afterAll(async () => {
  await victim?.end();
  await world?.stop();
  await embedded?.close();
});

it('I10 a worker that stops between giving up a rollback and asking for its removal takes nothing of the launch after that', async () => {
  const id = 'late cleanup';
  const refused = [{ verb: 'delete', resource: 'pods', fault: { error: { code: 500, reason: 'InternalError' } } }];
  await embedded.withFaults(refused, async () => {
    await victim.at('before redis.removal-intent#1', 'stop');
    await world.operator.producer.launch({ version: 1, instanceId: id, profile: 'node', prepare: 'exit 9' });
    await victim.halted();
  });
  expect(await world.operator.inventory.read(id)).toMatchObject({
    state: 'cleanup_pending',
    failure: { code: 'prepare_failed' },
  });
  await world.worker();
  await world.operator.producer.teardown({ version: 1, instanceId: id });
  await world.gone(id);
  const { generation } = await world.operator.producer.launch({ version: 1, instanceId: id, profile: 'node' });
  const record = await world.ready(id);

  const over = victim.says('"exit":"failed"');
  victim.process.kill('SIGCONT');
  await over;
  expect(await world.operator.inventory.read(id)).toMatchObject({ state: 'ready', intent: 'present', generation });
  expect((await world.ready(id)).pod?.uid).toBe(record.pod?.uid);
  expect((await world.exec(id, ['echo', 'alive'])).stdout).toBe('alive\n');
  await world.operator.producer.teardown({ version: 1, instanceId: id });
  await world.gone(id);
  expect(await world.leftovers()).toEqual([]);
}, 120_000);
