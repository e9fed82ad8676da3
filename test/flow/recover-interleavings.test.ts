import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { Inventory } from '../../src/inventory/port.ts';
import { recover } from '../../src/jobs/recover.ts';
import { keys } from '../../src/kubernetes/ownership.ts';
import { podName } from '../../src/names.ts';
import { type EmbeddedCluster, startCluster } from '../support/cluster.ts';
import { flushAll } from '../support/recover-flow.ts';
import { sweepContext } from '../support/sweep-context.ts';
import { sweepsByHand } from '../support/sweeps-by-hand.ts';
import { createWorld, type World } from '../support/world.ts';

let embedded: EmbeddedCluster;
let world: World;
beforeAll(async () => {
  embedded = await startCluster();
  const config = { installation: 'late', sweeps: sweepsByHand };
  world = await createWorld({ kubeconfig: embedded.kubeconfig, namespace: 'default', image: 'node:24', config });
  const worker = await world.worker();
  for (const instanceId of ['a', 'b']) await world.operator.producer.launch({ version: 1, instanceId, profile: 'node' });
  for (const id of ['a', 'b']) await world.ready(id);
  await worker.close();
  await flushAll(world);
});
afterAll(async () => {
  await world?.stop();
  await embedded?.close();
});

/** A recovery that has looked at `id` and is held up, for longer than its own lease, before it takes the instance's. */
async function recoverLate(id: string, meanwhile: () => Promise<unknown>) {
  const { inventory } = world.operator;
  const tryLease: Inventory['tryLease'] = async (hash) => {
    if (hash === inventory.hashOf(id)) await meanwhile();
    const lease = await inventory.tryLease(hash);
    if (hash === 'recover') await lease?.release();
    return lease;
  };
  const clusters = { names: () => [world.cluster.name], get: () => world.cluster, close: async () => undefined };
  const { context, close } = sweepContext(world, clusters);
  try {
    const report = await recover({ ...context, inventory: { ...inventory, tryLease } }, { dryRun: false });
    return report.items.find((item) => item.instanceId === id);
  } finally {
    close();
  }
}

describe('a recovery that takes an instance’s lease long after its look at it', () => {
  it('leaves its agent’s token to the record that another recovery has made meanwhile', async () => {
    const other = () => world.operator.recover({ dryRun: false });
    expect(await recoverLate('a', other)).toMatchObject({ outcome: 'skipped', rule: 'recorded' });
    expect((await world.exec('a', ['echo', 'alive'])).stdout).toBe('alive\n');
  });

  it('neither marks nor believes what somebody else put in the place of the Pod', async () => {
    await flushAll(world);
    const name = podName(world.operator.inventory.hashOf('b'));
    let marked: string | undefined;
    const replace = async () => {
      const { metadata } = (await world.cluster.read('pods', name)) ?? {};
      marked = metadata?.annotations?.[keys.recovered];
      await world.cluster.remove('pods', name, { uid: metadata?.uid ?? '', graceSeconds: 0 });
      await expect.poll(() => world.cluster.read('pods', name)).toBeUndefined();
      const spec = { containers: [{ name: 'agent', image: 'node:24', command: ['sleep', '600'] }] };
      const annotations = { ...metadata?.annotations, [keys.nonce]: 'f'.repeat(64) };
      await world.cluster.create('pods', { metadata: { name, labels: metadata?.labels ?? {}, annotations }, spec } as never);
    };
    expect(await recoverLate('b', replace)).toMatchObject({ outcome: 'skipped', rule: 'nonce_not_ours' });
    expect((await world.cluster.read('pods', name))?.metadata?.annotations?.[keys.recovered]).toBe(marked);
    expect(await world.operator.inventory.read('b')).toBeUndefined();
  });
});
