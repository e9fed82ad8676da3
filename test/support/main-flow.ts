import { expect } from 'vitest';
import { podName } from '../../src/names.ts';
import type { World } from './world.ts';

/** The main job, the same on every cluster: launch, exec, write, keep, relaunch, teardown. Asserts on records and objects. */
export async function mainFlow(world: World, id: string): Promise<void> {
  const { producer, inventory } = world.operator;
  const request = {
    version: 1,
    instanceId: id,
    profile: 'node',
    env: { GREETING: 'hello "$world"\n' },
    secretEnv: { SECRET: 's3cr3t-value' },
  };
  const first = await producer.launch(request);
  const record = await world.ready(id);
  expect(record.stages.map((stage) => [stage.name, stage.state])).toEqual(
    ['workspace', 'pod', 'bootstrap', 'connect', 'ready'].map((name) => [name, 'done']),
  );

  const pod = await world.cluster.read('pods', podName(record.hash));
  expect(pod?.metadata?.uid).toBe(record.pod?.uid);
  expect(JSON.stringify(pod)).not.toContain('s3cr3t-value');
  const output = await world.exec(id, ['/bin/sh', '-c', 'printf %s "$GREETING$SECRET"; echo kept > file; exit 7']);
  expect(output).toEqual({ exitCode: 7, stdout: 'hello "$world"\ns3cr3t-value', stderr: '' });

  const again = await producer.launch(request);
  expect(again).toMatchObject({ generation: first.generation, deduplicated: true });
  await expect(producer.launch({ ...request, env: {} })).rejects.toMatchObject({ code: 'instance_conflict' });

  await producer.teardown({ version: 1, instanceId: id, keepWorkspace: true });
  const suspended = await world.until(id, (current) => current?.state === 'suspended');
  expect(suspended?.pod).toBeNull();
  expect(await world.leftovers()).toEqual([`persistentvolumeclaims/${record.workspace?.claimName}`]);

  const second = await producer.launch(request);
  expect(second.generation).toBeGreaterThan(first.generation);
  const relaunched = await world.ready(id);
  expect(relaunched.workspace?.claimUid).toBe(record.workspace?.claimUid);
  expect(relaunched.pod?.uid).not.toBe(record.pod?.uid);
  expect((await world.exec(id, ['cat', 'file'])).stdout).toBe('kept\n');

  await producer.teardown({ version: 1, instanceId: id });
  await world.gone(id);
  expect(await world.leftovers()).toEqual([]);
  expect(await inventory.tombstone(id)).toMatchObject({ instanceId: id });
  await expect(producer.teardown({ version: 1, instanceId: id })).rejects.toMatchObject({ code: 'instance_gone' });
}
