import { once } from 'node:events';
import { join } from 'node:path';
import { expect } from 'vitest';
import { podName } from '../../src/names.ts';
import type { World } from './world.ts';

/** One kill in each stage, before and after what the stage changes. */
export const killPoints = [
  'before kube.create.persistentvolumeclaims',
  'after kube.create.persistentvolumeclaims',
  'before kube.create.pods',
  'after kube.create.pods',
  'before kube.exec',
  'after kube.exec',
  'before agent.handshake',
  'after agent.handshake',
  'after agent.create',
] as const;

/**
 * A worker process is killed at the point; another one takes over. At the end there is one ready Pod; when the first
 * worker had made it already, it is the same one.
 */
export async function crashFlow(world: World, id: string, point: string): Promise<void> {
  const preload = join(import.meta.dirname, 'kill-at.mjs');
  const victim = await world.workerProcess({ KILL_AT: point, NODE_OPTIONS: `--import ${preload}` });
  const died = once(victim, 'exit');
  await world.operator.producer.launch({ version: 1, instanceId: id, profile: 'node' });
  expect((await died)[1]).toBe('SIGKILL');
  const { hash } = (await world.operator.inventory.read(id)) ?? { hash: '' };
  const before = await world.cluster.read('pods', podName(hash));

  const heir = await world.worker();
  const record = await world.ready(id);
  const after = await world.cluster.read('pods', podName(hash));
  expect(after?.metadata?.uid).toBe(record.pod?.uid);
  if (before !== undefined) expect(after?.metadata?.uid).toBe(before.metadata?.uid);
  expect((await world.exec(id, ['echo', 'alive'])).stdout).toBe('alive\n');

  await world.operator.producer.teardown({ version: 1, instanceId: id });
  await world.gone(id);
  expect(await world.leftovers()).toEqual([]);
  await heir.close();
}
