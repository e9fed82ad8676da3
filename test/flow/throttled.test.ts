import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, it } from 'vitest';
import type { AuditEntry } from '../../src/local-cluster/audit.ts';
import type { LocalCluster } from '../../src/local-cluster/types.ts';
import { lightProfiles, startLightCluster } from '../support/light-cluster.ts';
import { writeFaults } from '../support/soak/api-faults.ts';
import { createWorld, type World } from '../support/world.ts';

let dir: string;
let embedded: LocalCluster;
const count = 500;
let world: World;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'windlass-throttled-'));
  await writeFaults(join(dir, 'faults'), []);
  embedded = await startLightCluster({ faults: join(dir, 'faults'), auditLog: join(dir, 'audit') });
  const config = { profiles: lightProfiles, limits: { perOwner: count, launching: count } };
  world = await createWorld({ kubeconfig: embedded.kubeconfig, namespace: 'default', image: 'node:24', config });
  await world.worker();
});
afterAll(async () => {
  await world?.stop();
  await embedded?.close();
  await rm(dir, { recursive: true, force: true });
});

it('C69 launches that the API server throttles wait as long as it asks, burn no attempt, and all succeed afterwards', async () => {
  const busy = { error: { code: 429, reason: 'TooManyRequests', retryAfter: 2 } };
  await writeFaults(join(dir, 'faults'), [{ verb: 'create', resource: 'pods', fault: busy }]);
  const ids = Array.from({ length: count }, (_, at) => `throttled ${at}`);
  for (const instanceId of ids) await world.operator.producer.launch({ version: 1, instanceId, profile: 'scratch' });
  const refused = async () => (await creates()).filter(({ code }) => code === 429);
  // Everybody has been told, most of them twice.
  await expect.poll(async () => (await refused()).length, { timeout: 120_000 }).toBeGreaterThanOrEqual(2 * count);
  const waitOf = async (id: string) => (await world.operator.inventory.read(id))?.stages.find(({ name }) => name === 'pod')?.wait;
  // Not while it is being tried again.
  for (const id of ids) await expect.poll(() => waitOf(id), { timeout: 30_000 }).toBe('throttled');
  const gaps = gapsOf(await refused());
  // By the API server's own clock; its times are whole milliseconds.
  expect(Math.min(...gaps)).toBeGreaterThanOrEqual(1990);
  expect(Math.max(...gaps) - Math.min(...gaps)).toBeGreaterThan(1000);
  await writeFaults(join(dir, 'faults'), []);
  for (const id of ids) expect(await world.ready(id)).toMatchObject({ run: 1, attemptsLeft: 3, failure: null });
  expect((await creates()).filter(({ code }) => code === 201)).toHaveLength(ids.length);
}, 300_000);

/** Milliseconds between two refusals of the same Pod. */
function gapsOf(entries: readonly AuditEntry[]): number[] {
  const last = new Map<string, number>();
  return entries.flatMap(({ name, at }) => {
    const before = last.get(name);
    last.set(name, Date.parse(at));
    return before === undefined ? [] : [Date.parse(at) - before];
  });
}

async function creates(): Promise<AuditEntry[]> {
  const lines = (await readFile(join(dir, 'audit'), 'utf8')).trim().split('\n');
  const entries = lines.map((line) => JSON.parse(line) as AuditEntry);
  return entries.filter(({ verb, resource, subresource }) => verb === 'create' && resource === 'pods' && subresource === '');
}
