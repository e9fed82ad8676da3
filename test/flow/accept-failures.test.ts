import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type EmbeddedCluster, startCluster } from '../support/cluster.ts';
import { createWorld, type World, type WorldOptions } from '../support/world.ts';

let embedded: EmbeddedCluster;
let dir: string;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'windlass-accept-'));
  embedded = await startCluster();
});
afterAll(async () => {
  await embedded?.close();
  await rm(dir, { recursive: true, force: true });
});

/** The first launch of an installation, whose epoch is not written yet: it looks at the cluster before it may begin. */
async function firstLaunch(options: Pick<WorldOptions, 'kubeconfig' | 'namespace'>, test: (world: World) => Promise<void>) {
  const world = await createWorld({ ...options, image: 'node:24' });
  try {
    await world.worker();
    await world.operator.producer.launch({ version: 1, instanceId: 'first', profile: 'node' });
    await test(world);
  } finally {
    await world.stop();
  }
}

it('a first launch into a namespace that does not exist fails with its name', async () => {
  await firstLaunch({ kubeconfig: embedded.kubeconfig, namespace: 'absent' }, async (world) => {
    const record = await world.until('first', (current) => current?.state === 'failed');
    expect(record?.failure).toMatchObject({ code: 'namespace_not_found', retriable: false });
    expect(record?.failure?.message).toContain('absent');
  });
});

it('a first launch while the API server is away says so, and is tried again', async () => {
  const kubeconfig = join(dir, 'kubeconfig');
  const text = await readFile(embedded.kubeconfig, 'utf8');
  await writeFile(kubeconfig, text.replace(/(server: https:\/\/127\.0\.0\.1):\d+/, '$1:9'));
  await firstLaunch({ kubeconfig, namespace: 'default' }, async (world) => {
    const record = await world.until('first', (current) => current?.failure !== null);
    expect(record?.failure).toMatchObject({ code: 'cluster_unreachable', attemptsLeft: 2 });
    expect(record?.state).not.toBe('failed');
  });
});
