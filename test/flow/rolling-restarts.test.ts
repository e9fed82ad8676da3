import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { AuditEntry } from '../../src/local-cluster/audit.ts';
import { type EmbeddedCluster, startCluster } from '../support/cluster.ts';
import { duplicatesOf } from '../support/soak/audit.ts';
import { createWorld, type World } from '../support/world.ts';

let dir: string;
let embedded: EmbeddedCluster;
let world: World;
const restarts = 20;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'windlass-rolling-'));
  embedded = await startCluster({ auditLog: join(dir, 'audit') });
  const config = { limits: { perOwner: 100 } };
  world = await createWorld({ kubeconfig: embedded.kubeconfig, namespace: 'default', image: 'node:24', config });
});
afterAll(async () => {
  await world?.stop();
  await embedded?.close();
  await rm(dir, { recursive: true, force: true });
});

it('C23 twenty rolling restarts under load lose nothing, double nothing and burn no attempt', async () => {
  const { producer, inventory } = world.operator;
  const asked: string[] = [];
  const ask = async () => {
    const instanceId = `rolled ${asked.length}`;
    asked.push(instanceId);
    await producer.launch({ version: 1, instanceId, profile: 'scratch' });
  };
  let old = [await world.worker(), await world.worker()];
  for (let restart = 0; restart < restarts; restart++) {
    await ask();
    if (restart % 2 === 1) await ask();
    // Under way, in whatever stage, when its worker is told to go.
    const last = asked.at(-1) ?? '';
    await world.until(last, (record) => record?.state === 'launching' || record?.state === 'ready');
    const [leaving, staying] = old as [(typeof old)[0], (typeof old)[0]];
    const fresh = await world.worker();
    await leaving.close();
    old = [staying, fresh];
  }
  for (const id of asked) {
    const record = await world.ready(id, 90);
    const told = (await inventory.events(id, 0, 200)).map((event) => JSON.stringify(event)).join('\n');
    expect(record, told).toMatchObject({ run: 1, attemptsLeft: 3, failure: null });
    expect(record.crashes).toBeLessThanOrEqual(1);
  }
  expect((await world.leftovers()).length).toBe(asked.length);
  for (const instanceId of asked) await producer.teardown({ version: 1, instanceId });
  for (const id of asked) await world.gone(id, 90);
  expect(await world.leftovers()).toEqual([]);
  expect((await inventory.list({ limit: 10 })).items).toEqual([]);
  const audit = (await readFile(join(dir, 'audit'), 'utf8')).trim().split('\n');
  expect(duplicatesOf(audit.map((line) => JSON.parse(line) as AuditEntry))).toEqual([]);
}, 240_000);
