import { once } from 'node:events';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type EmbeddedCluster, startCluster } from '../support/cluster.ts';
import { removePods, resumeSteps } from '../support/resume-steps.ts';
import { createWorld, type World } from '../support/world.ts';

const preload = join(import.meta.dirname, '../support/kill-at.mjs');
let embedded: EmbeddedCluster;
beforeAll(async () => {
  embedded = await startCluster();
});
afterAll(async () => embedded?.close());

let count = 0;
let world: World;
let steps: ReturnType<typeof resumeSteps>;
const open = async () => {
  const config = { installation: `resumed-${count++}` };
  world = await createWorld({ kubeconfig: embedded.kubeconfig, namespace: 'default', image: 'node:24', config });
  steps = resumeSteps(world);
  return world.worker();
};
afterEach(async () => {
  await removePods(world);
  await world.stop();
});
const podUid = async (name: string) => (await world.cluster.read('pods', name))?.metadata?.uid;

describe('a worker that dies', () => {
  it.each(['before kube.create.pods', 'after kube.create.pods', 'after kube.exec', 'after agent.handshake'])(
    '%s of a rebuild: another worker finishes with the same Pod, counted once',
    async (point) => {
      const first = await open();
      const record = await steps.launch('rebuilt');
      await world.exec('rebuilt', ['/bin/sh', '-c', 'echo data > file']);
      await steps.deletePod(record, 1);
      await steps.lost('rebuilt');
      await first.close();
      const name = record.pod?.name ?? '';
      await expect.poll(() => podUid(name), { timeout: 10_000 }).toBeUndefined();

      const victim = await world.workerProcess({ KILL_AT: point, NODE_OPTIONS: `--import ${preload}` });
      const died = once(victim, 'exit');
      await world.operator.producer.reconnect('rebuilt');
      expect((await died)[1]).toBe('SIGKILL');
      const made = await podUid(name);
      await world.worker();
      const after = await world.ready('rebuilt');
      expect(after).toMatchObject({ rebuilds: 1, run: 2, workspace: { claimUid: record.workspace?.claimUid } });
      expect(after.pod?.uid).toBe(await podUid(name));
      if (made !== undefined) expect(after.pod?.uid).toBe(made);
      expect((await world.exec('rebuilt', ['cat', 'file'])).stdout).toBe('data\n');
    },
  );

  it('with the lease of a lost instance in hand: the next one writes the loss when that lease has ended', async () => {
    const first = await open();
    const record = await steps.launch('half-lost');
    await first.close();
    await steps.deletePod(record, 1);
    await expect.poll(() => podUid(record.pod?.name ?? ''), { timeout: 10_000 }).toBeUndefined();
    const victim = world.workerProcess({ KILL_AT: 'after redis.try-lease', NODE_OPTIONS: `--import ${preload}` });
    // It may die before or after it says that it has started.
    await victim
      .then((child) => once(child, 'exit'))
      .catch((error: Error) => expect(error.message).toContain('the worker ended'));
    expect((await world.operator.inventory.read('half-lost'))?.state).toBe('ready');
    await world.worker();
    await steps.lost('half-lost');
    expect(await steps.events('half-lost', 'lost')).toHaveLength(1);
  });
});

describe('a teardown', () => {
  it.each(['pod_created', 'bootstrapped', 'connected'])(
    'during a rebuild that has got to %s ends gone, with nothing left',
    async (checkpoint) => {
      await open();
      const record = await steps.launch('torn');
      await steps.deletePod(record, 1);
      await steps.lost('torn');
      await world.operator.producer.reconnect('torn');
      await world.until(
        'torn',
        (current) => current?.rebuilds === 1 || current?.stages.some((stage) => stage.checkpoint === checkpoint) === true,
      );
      await world.operator.producer.teardown({ version: 1, instanceId: 'torn' });
      await world.gone('torn');
      expect(await world.leftovers()).toEqual([]);
    },
  );

  it('at the moment in which the Pod is lost wins: the loss is not written over it', async () => {
    await open();
    const record = await steps.launch('both');
    await Promise.all([steps.deletePod(record), world.operator.producer.teardown({ version: 1, instanceId: 'both' })]);
    await world.gone('both');
    expect(await world.leftovers()).toEqual([]);
  });
});
