import fc from 'fast-check';
import { expect, test } from 'vitest';
import type { Inventory, Lease } from '../../src/inventory/port.ts';
import { type InstanceRecord, type State, states } from '../../src/inventory/types.ts';
import { launchOf, tag, useWorld } from './inventory-support.ts';

const world = useWorld();

const live: readonly State[] = ['launching', 'ready', 'lost', 'removing', 'rolling_back', 'cleanup_pending'];
const ids = ['a', 'b'];

const step = fc.record({
  id: fc.constantFrom(...ids),
  worker: fc.constantFrom(0, 1),
  act: fc.constantFrom('launch', 'other', 'remove', 'suspend', 'begin', 'teardown', 'write', 'finish', 'release', 'expire'),
  state: fc.constantFrom<State>(...states),
  expiresAt: fc.constantFrom(0, 5, 10),
});
type Step = typeof step extends fc.Arbitrary<infer T> ? T : never;

/** Codes that a wrongly ordered call may be refused with; anything else is a defect. */
const orderly = ['lease_lost', 'superseded', 'invariant_broken'];

async function act(
  workers: readonly Inventory[],
  leases: Map<string, Lease>,
  { id, worker, act: what, state, expiresAt }: Step,
): Promise<unknown> {
  const inventory = workers[worker] as Inventory;
  const record = await inventory.read(id);
  const lease = leases.get(`${id}${worker}`);
  if (what === 'launch') return inventory.intendLaunch(launchOf(id));
  if (what === 'other') return inventory.intendLaunch(launchOf(id, { requestHash: 'h2', cluster: 'second' }));
  if (what === 'remove') return inventory.intendRemoval({ instanceId: id, intent: 'absent', payload: {} });
  if (what === 'suspend') return inventory.intendRemoval({ instanceId: id, intent: 'suspended', payload: {} });
  if (what === 'expire') return world.raw.del(`${tag}:lease:${inventory.hashOf(id)}`);
  if ((what === 'begin' || what === 'teardown') && record) {
    const verb = what === 'begin' ? 'launch' : 'teardown';
    const generation = what === 'begin' ? record.generation : record.removeUpTo;
    const begun = await inventory.begin(id, { verb, generation, run: record.run });
    if (begun.kind === 'ok') leases.set(`${id}${worker}`, begun.lease);
  }
  if (lease === undefined) return undefined;
  if (what === 'write') return inventory.write(lease, { state, set: { expiresAt } });
  if (what === 'finish' && record) {
    return inventory.finishRemoval(lease, { generation: record.removeUpTo, suspended: expiresAt === 5 });
  }
  return what === 'release' ? lease.release() : undefined;
}

/** What the indexes must be, made anew from the records. */
function expected(records: readonly InstanceRecord[]) {
  const hashes = (takes: (record: InstanceRecord) => boolean) =>
    records
      .filter(takes)
      .map(({ hash }) => hash)
      .sort();
  return {
    live: hashes((r) => live.includes(r.state)),
    owner: hashes((r) => live.includes(r.state)),
    first: hashes((r) => live.includes(r.state) && r.cluster === 'default'),
    second: hashes((r) => live.includes(r.state) && r.cluster === 'second'),
    launching: hashes((r) => r.state === 'launching'),
    queued: hashes((r) => r.state === 'requested' || r.state === 'launching'),
    expiry: hashes((r) => r.expiresAt > 0),
    all: hashes(() => true),
    byState: Object.fromEntries(states.map((state) => [state, hashes((r) => r.state === state).length])),
  };
}

async function found(inventory: Inventory) {
  const { raw } = world;
  const set = async (name: string) => (await raw.smembers(`${tag}:${name}`)).sort();
  return {
    live: await set('live'),
    owner: await set('live-owner:ann'),
    first: await set('live-cluster:default'),
    second: await set('live-cluster:second'),
    launching: await set('launching'),
    queued: await set('queued:ann'),
    expiry: (await raw.zrange(`${tag}:expiry`, '0', '-1')).sort(),
    all: (await raw.zrange(`${tag}:all`, '0', '-1')).map((member) => member.slice(16)).sort(),
    byState: await inventory.counts(),
  };
}

test('whatever two workers and a caller do in whatever order, indexes fit the records, and generations and fences rise', async () => {
  const workers = [world.inventory, await world.open({ holder: 'worker-2' })];
  const one = async (steps: Step[]) => {
    await world.raw.flushall();
    const leases = new Map<string, Lease>();
    const highest = new Map<string, { generation: number; fence: bigint }>();
    for (const next of steps) {
      await act(workers, leases, next).catch((error: { code?: string }) => expect(orderly).toContain(error.code));
      const records = (await Promise.all(ids.map((id) => world.inventory.read(id)))).filter((record) => record !== undefined);
      expect(await found(world.inventory)).toEqual(expected(records));
      for (const { instanceId, generation, fence } of records) {
        const before = highest.get(instanceId) ?? { generation: 0, fence: 0n };
        expect(generation).toBeGreaterThanOrEqual(before.generation);
        expect(BigInt(fence)).toBeGreaterThanOrEqual(before.fence);
        highest.set(instanceId, { generation, fence: BigInt(fence) });
      }
    }
    await Promise.all([...leases.values()].map((lease) => lease.release()));
  };
  await fc.assert(fc.asyncProperty(fc.array(step, { minLength: 5, maxLength: 40 }), one), { numRuns: 25 });
});
