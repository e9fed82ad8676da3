import { once } from 'node:events';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { type EmbeddedCluster, startCluster } from '../support/cluster.ts';
import { connectHttp } from '../support/kube-http.ts';
import { createWorld, type World } from '../support/world.ts';

let embedded: EmbeddedCluster;
let world: World;

beforeAll(async () => {
  embedded = await startCluster();
  world = await createWorld({ kubeconfig: embedded.kubeconfig, namespace: 'default', image: 'node:24' });
});
afterAll(async () => {
  await world?.stop();
  await embedded?.close();
});

it('I5 a send whose fate nobody knows stays open when the next send of another worker is refused for sure', async () => {
  const preload = join(import.meta.dirname, '../support/kill-at.mjs');
  const victim = await world.workerProcess({ KILL_AT: 'before kube.create.pods', NODE_OPTIONS: `--import ${preload}` });
  const died = once(victim, 'exit');
  await world.operator.producer.launch({ version: 1, instanceId: 'open', profile: 'node' });
  await died;
  const api = await connectHttp(embedded.kubeconfig);
  const quotas = '/api/v1/namespaces/default/resourcequotas';
  await api.call('POST', quotas, { metadata: { name: 'none' }, spec: { hard: { pods: '0' } } });

  await world.worker();
  const waiting = await world.until('open', (record) => record?.stages.some((stage) => stage.wait === 'quota_exceeded') ?? false);
  expect(waiting?.creates.pods).toMatchObject({ open: true });

  await api.call('DELETE', `${quotas}/none`);
  expect((await world.ready('open')).creates.pods).toMatchObject({ open: false });
  await world.operator.producer.teardown({ version: 1, instanceId: 'open' });
  await world.gone('open');
  expect(await world.leftovers()).toEqual([]);
});
