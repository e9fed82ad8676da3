import { randomBytes } from 'node:crypto';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { poll } from '../../src/clock.ts';
import { podName } from '../../src/names.ts';
import { withPlainQueue } from '../support/chaos/plain-queue.ts';
import { standby, type Victim } from '../support/chaos/victim.ts';
import { type FaultyCluster, startFaultyCluster } from '../support/fault-plan.ts';
import { createWorld, type World } from '../support/world.ts';

let dir: string;
let embedded: FaultyCluster;
let world: World;
let victim: Victim;
let earlier: number;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'windlass-audit-'));
  embedded = await startFaultyCluster({ auditLog: join(dir, 'audit.log') });
});
afterAll(async () => {
  await embedded?.close();
  await rm(dir, { recursive: true, force: true });
});
beforeEach(async () => {
  // What one test leaves must not be counted by the next.
  const config = { installation: `holders-${randomBytes(4).toString('hex')}` };
  world = await createWorld({ kubeconfig: embedded.kubeconfig, namespace: 'default', image: 'node:24', config });
  victim = await standby(world.loaded, 'launch,teardown');
  await victim.start();
  earlier = (await audit()).length;
});
afterEach(async () => {
  await victim?.end();
  await world?.stop();
});

const request = (id: string) => ({ version: 1, instanceId: id, profile: 'node' });
const resume = () => victim.process.kill('SIGCONT');

/** How often the API server did this to Pods since the test began, by its own log. */
async function requests(verb: 'create' | 'exec'): Promise<number> {
  const lines = (await audit()).slice(earlier);
  const entries = lines.map((line) => JSON.parse(line) as { resource: string; subresource: string; verb: string; code: number });
  const did = (entry: (typeof entries)[number]) => (entry.subresource === '' ? entry.verb : entry.subresource);
  return entries.filter((entry) => entry.resource === 'pods' && entry.code < 300 && did(entry) === verb).length;
}

const audit = async () => (await readFile(join(dir, 'audit.log'), 'utf8')).trim().split('\n');

/** The last effect before this one in an undisturbed launch: what is checked between the two is checked after the stop. */
async function effectBefore(point: string): Promise<string> {
  const seen: string[] = [];
  await victim.watch((effect) => seen.push(effect));
  await world.operator.producer.launch(request('pathfinder'));
  await world.ready('pathfinder');
  await world.operator.producer.teardown({ version: 1, instanceId: 'pathfinder' });
  await world.gone('pathfinder');
  await victim.end();
  victim = await standby(world.loaded, 'launch,teardown');
  await victim.start();
  const mine = seen.filter((effect) => !/claim-waiters|wake|renew/.test(effect));
  return mine[mine.indexOf(point) - 1] ?? '';
}

async function assertOne(id: string): Promise<void> {
  const record = await world.ready(id);
  expect((await world.cluster.read('pods', podName(record.hash)))?.metadata?.uid).toBe(record.pod?.uid);
  expect((await world.leftovers()).length).toBe(2);
  expect((await world.exec(id, ['echo', 'alive'])).stdout).toBe('alive\n');
  expect(await requests('create')).toBe(1);
}

describe('two workers that both believe to hold an instance', () => {
  it.each(['stop', 'block'] as const)(
    'C04 one that came to a %s past lease and lock sends nothing when it goes on: exactly one bootstrap',
    async (act) => {
      const point = await effectBefore('before kube.exec#1');
      earlier = (await audit()).length;
      await victim.at(point, act);
      await world.operator.producer.launch(request('held twice'));
      await victim.halted();
      await world.worker();
      const refused = victim.says('"code":"lease_lost"');
      if (act === 'stop') {
        await world.ready('held twice');
        resume();
      }
      await refused;
      await assertOne('held twice');
      expect(await requests('exec')).toBe(1);
    },
    120_000,
  );

  it.each(['deleted', 'taken by another token'] as const)(
    'C04 one whose job lock alone is %s while its lease holds: the second gets the job, waits, and nothing is done twice',
    async (theft) => {
      await victim.end();
      const env = { WINDLASS__WORKER__CONCURRENCY: '1' };
      victim = await standby(world.loaded, 'launch', env);
      const second = await standby(world.loaded, 'launch', env);
      try {
        await victim.start();
        // A create is not aborted with its job: the first is in the middle of it for as long as the second looks on.
        const slow = { verb: 'create', resource: 'pods', nth: 1, fault: { delayMs: 15_000 } };
        await embedded.withFaults([slow], async () => {
          const { generation } = await world.operator.producer.launch(request('stolen'));
          const first = await world.until('stolen', (record) => record?.creates.pods?.open === true);
          await second.start();
          const lock = `{windlass:${world.loaded.config.installation}:launch}:launch:launch-${first?.hash}-${generation}-1:lock`;
          const redis = new Redis(world.redis.url);
          expect(theft === 'deleted' ? await redis.del(lock) : await redis.set(lock, 'thief', 'PX', 4000, 'XX')).toBeTruthy();
          redis.disconnect();
          await second.says('"reason":"lease_held"');
          expect(await world.operator.inventory.read('stolen')).toMatchObject({ fence: first?.fence, pod: null });
          expect(await requests('create')).toBe(0);
          await assertOne('stolen');
        });
        expect(await requests('exec')).toBe(1);
        expect(await world.ready('stolen')).toMatchObject({ run: 1, attemptsLeft: 3, failure: null });
      } finally {
        await second.end();
      }
    },
    120_000,
  );

  it('C04 a create that a stale holder still sends finds the one of its successor, and its checkpoint is refused', async () => {
    await victim.at('before kube.create.pods#1', 'stop');
    await world.operator.producer.launch(request('late'));
    await victim.halted();
    await world.worker();
    const record = await world.ready('late');
    const refused = victim.says('"code":"lease_lost"');
    resume();
    await refused;
    expect((await world.ready('late')).fence).toBe(record.fence);
    await assertOne('late');
  }, 120_000);

  it('C14 a create that a stale holder sends during the teardown is found by its nonce and removed', async () => {
    await victim.at('before kube.create.pods#1', 'stop');
    await world.operator.producer.launch(request('torn down'));
    await victim.halted();
    await world.operator.producer.teardown({ version: 1, instanceId: 'torn down' });
    await world.worker();
    // The teardown may not end while the fate of the create is open.
    await world.until('torn down', (record) => record?.state === 'removing' && record.workspace !== null);
    resume();
    await world.gone('torn down');
    expect(await world.leftovers()).toEqual([]);
    expect(await world.operator.inventory.tombstone('torn down')).toMatchObject({ instanceId: 'torn down' });
  }, 120_000);

  it('C04 the same request delivered five times under other job ids is done once', async () => {
    await victim.end();
    await Promise.all([world.worker(), world.worker()]);
    const { generation } = await world.operator.producer.launch(request('delivered'));
    await withPlainQueue(world, 'launch', async (queue) => {
      const data = { version: 1, instanceId: 'delivered', generation, run: 1 };
      await Promise.all([1, 2, 3, 4, 5].map((n) => queue.add('launch', data, { jobId: `again-${n}` })));
      await assertOne('delivered');
      const completed = async () => (await queue.getCompleted()).filter((job) => job.id?.startsWith('again-')).length === 5;
      expect(await poll(completed, { everyMs: 100, forMs: 40_000 })).toBe(true);
    });
    expect(await requests('exec')).toBe(1);
  }, 120_000);

  it('C17 a queue obliterated under a running launch stops it at its next step; the same request again finishes it', async () => {
    await victim.at('before kube.exec#1', 'stop');
    await world.operator.producer.launch(request('obliterated'));
    await victim.halted();
    const before = await world.operator.inventory.read('obliterated');
    await withPlainQueue(world, 'launch', (queue) => queue.obliterate({ force: true }));
    const { leaseHolder, hashOf } = world.operator.inventory;
    expect(
      await poll(async () => (await leaseHolder(hashOf('obliterated'))) === undefined, { everyMs: 100, forMs: 10_000 }),
    ).toBe(true);
    const refused = victim.says('"code":"lease_lost"');
    resume();
    await refused;
    expect((await world.operator.inventory.read('obliterated'))?.state).toBe('launching');
    expect(await leaseHolder(hashOf('obliterated'))).toBeUndefined();
    await world.operator.producer.launch(request('obliterated'));
    await assertOne('obliterated');
    expect((await world.ready('obliterated')).pod?.uid).toBe(before?.pod?.uid);
  }, 120_000);
});
