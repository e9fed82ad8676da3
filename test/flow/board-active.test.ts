import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { startServer } from '../../src/dashboard/serve.ts';
import type { LocalCluster } from '../../src/local-cluster/types.ts';
import { openCaller } from '../../src/main.ts';
import { sha256 } from '../../src/names.ts';
import { withPlainQueue } from '../support/chaos/plain-queue.ts';
import { lightProfiles, startLightCluster } from '../support/light-cluster.ts';
import { sweepsByHand } from '../support/sweeps-by-hand.ts';
import { createWorld, type World } from '../support/world.ts';

const token = 'operator-token';
let dir: string;
let light: LocalCluster;
let world: World;
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'windlass-board-'));
  const faults = join(dir, 'faults.yaml');
  await writeFile(faults, JSON.stringify({ rules: [{ verb: 'create', resource: 'pods', fault: { delayMs: 4000 } }] }));
  light = await startLightCluster({ faults });
  const config = {
    installation: 'board',
    profiles: lightProfiles,
    sweeps: sweepsByHand,
    http: { port: 0, tokens: [{ name: 'op', sha256: sha256(token), role: 'operator' }] },
  };
  world = await createWorld({ kubeconfig: light.kubeconfig, namespace: 'default', image: 'node:24', config });
  await world.worker();
});
afterAll(async () => {
  await world?.stop();
  await light?.close();
  await rm(dir, { recursive: true, force: true });
});

it('C17 Bull Board refuses to remove or obliterate a launch that is active, says what to do instead, and the launch ends well', async () => {
  const caller = await openCaller(world.loaded);
  const server = await startServer({ caller });
  try {
    const url = server.url.replace(/\/$/, '');
    const { jobId } = await world.operator.producer.launch({ version: 1, instanceId: 'a/b', profile: 'scratch' });
    await world.until('a/b', (record) => record?.creates.pods?.open === true);
    const authorization = `Bearer ${token}`;
    const put = (path: string, body = '{}') =>
      fetch(`${url}/queues/api/queues/launch/${path}`, {
        method: 'PUT',
        headers: { authorization, origin: new URL(url).origin, 'content-type': 'application/json' },
        body,
      });
    const refused = await put(`${jobId}/clean`);
    expect(refused.status).toBe(409);
    const body = (await refused.json()) as { instance: string };
    expect(body).toMatchObject({
      error: { key: 'ERRORS.JOB_IS_ACTIVE' },
      hint: expect.stringContaining('windlass teardown'),
      instance: '/instances/a%2Fb',
    });
    expect((await fetch(url + body.instance, { headers: { authorization } })).status).toBe(200);
    expect((await put('obliterate', '{"force":true}')).status).toBe(403);
    expect((await put('empty')).status).toBe(403);
    await withPlainQueue(world, 'launch', async (queue) => expect(await queue.getJobState(jobId)).toBe('active'));
    const record = await world.ready('a/b');
    expect(record).toMatchObject({ run: 1, failure: null });
    expect(await world.leftovers()).toHaveLength(1);
  } finally {
    await server.close();
    await caller.close();
  }
});
