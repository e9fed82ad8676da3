import { randomBytes } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { withPlainQueue } from '../support/chaos/plain-queue.ts';
import { standby, type Victim } from '../support/chaos/victim.ts';
import { type FaultyCluster, startFaultyCluster } from '../support/fault-plan.ts';
import { createWorld, type World } from '../support/world.ts';

let embedded: FaultyCluster;
let world: World;
let victim: Victim;
const graceSeconds = 10;

beforeAll(async () => {
  embedded = await startFaultyCluster();
});
afterAll(async () => embedded?.close());
beforeEach(async () => {
  const installation = `drain-${randomBytes(4).toString('hex')}`;
  // A call may take longer than any test: only a drain that does not wait for it ends before it does.
  const cluster = {
    authMode: 'kubeconfig',
    kubeconfigPath: embedded.kubeconfig,
    namespace: 'default',
    requestTimeoutSeconds: 300,
  };
  const config = { installation, worker: { drainSeconds: graceSeconds }, clusters: { default: cluster } };
  world = await createWorld({ kubeconfig: embedded.kubeconfig, namespace: 'default', image: 'node:24', config });
  victim = await standby(world.loaded, 'launch,teardown');
  await victim.start();
});
afterEach(async () => {
  await victim?.end();
  await world?.stop();
});

const request = (id: string, more: object = {}) => ({ version: 1, instanceId: id, profile: 'node', ...more });

const exitCode = async () => (await victim.dead)[0];

describe('a worker told to stop', () => {
  it.each([
    'before kube.create.persistentvolumeclaims#1',
    'before kube.create.pods#1',
    'before kube.exec#1',
    'before agent.handshake#1',
  ])(
    'C23 %s hands its job back at the checkpoint, exits 0, burns no attempt; another goes on with the same objects',
    async (point) => {
      await victim.at(point, 'term');
      const { generation } = await world.operator.producer.launch(request('drained'));
      expect(await exitCode()).toBe(0);
      const left = await world.operator.inventory.read('drained');
      expect(left).toMatchObject({ attemptsLeft: 3, crashes: 0, failure: null });
      // Nearly through when it was told, it may have ended the launch by then.
      expect(['launching', 'ready']).toContain(left?.state);
      await withPlainQueue(world, 'launch', async (queue) => {
        const job = await queue.getJob(`launch-${left?.hash}-${generation}-1`);
        // Delayed when it was to wait for its Pod by then.
        const ended = left?.state === 'ready';
        expect(ended ? ['completed'] : ['waiting', 'prioritized', 'delayed']).toContain(await job?.getState());
        expect(job?.attemptsMade).toBe(ended ? 1 : 0);
      });
      await world.worker();
      const record = await world.ready('drained');
      if (left?.pod) expect(record.pod?.uid).toBe(left.pod.uid);
      expect((await world.leftovers()).length).toBe(2);
      await world.operator.producer.teardown({ version: 1, instanceId: 'drained' });
      await world.gone('drained');
      expect(await world.leftovers()).toEqual([]);
    },
  );

  it.each([
    { backlog: 'waited already', concurrency: '1', early: 3, late: 0 },
    { backlog: 'comes while it hands its job back, with slots to spare', concurrency: '4', early: 0, late: 3 },
  ])(
    'C23 takes none of the jobs of a backlog that $backlog',
    async ({ concurrency, early, late }) => {
      await victim.end();
      victim = await standby(world.loaded, 'launch', { WINDLASS__WORKER__CONCURRENCY: concurrency });
      await victim.start();
      await victim.at('before kube.create.pods#1', 'term');
      const { producer, inventory } = world.operator;
      const asked = new Map<string, string>();
      const ask = async (count: number) => {
        for (let left = count; left > 0; left--) {
          const id = `untouched ${asked.size}`;
          asked.set(id, (await producer.launch(request(id))).jobId);
        }
      };
      // Creates are not aborted: for so long it has a job to wait for, and could take others.
      const slow = { verb: 'create', resource: 'pods', fault: { delayMs: 3000 } };
      await embedded.withFaults([slow], async () => {
        const { jobId } = await producer.launch(request('under way'));
        await ask(early);
        await victim.says('Draining.');
        await ask(late);
        expect(await exitCode()).toBe(0);
        await withPlainQueue(world, 'launch', async (queue) => {
          const startsOf = async (id: string) => (await queue.getJob(id))?.attemptsStarted;
          expect(await startsOf(jobId)).toBe(1);
          for (const job of asked.values()) {
            expect(await queue.getJobState(job)).toBe('prioritized');
            // What was fetched while the drain began is handed back unread; its record below says so.
            expect(await startsOf(job)).toBeLessThanOrEqual(late > 0 ? 1 : 0);
          }
        });
        for (const id of asked.keys()) expect(await inventory.read(id)).toMatchObject({ state: 'requested', fence: '0' });
      });
      await world.worker();
      for (const id of ['under way', ...asked.keys()]) expect(await world.ready(id)).toMatchObject({ run: 1, attemptsLeft: 3 });
    },
    120_000,
  );

  it.each([
    { call: 'create of the Pod', rule: { verb: 'create', resource: 'pods' }, point: 'before kube.create.pods#1' },
    { call: 'exec', rule: { resource: 'pods', subresource: 'exec' }, point: 'before kube.exec#1' },
  ])(
    'C23 exits 0 while the $call never answers, and another worker goes on with the same request',
    async ({ rule, point }) => {
      await embedded.withFaults([{ ...rule, fault: { delayMs: 600_000 } }], async () => {
        await victim.at(point, 'term');
        await world.operator.producer.launch(request('hanging'));
        expect(await exitCode()).toBe(0);
        expect(victim.log()).toContain('worker stopped');
      });
      const left = await world.operator.inventory.read('hanging');
      expect(left).toMatchObject({ state: 'launching', attemptsLeft: 3, failure: null });
      await world.worker();
      const record = await world.ready('hanging');
      expect(record).toMatchObject({ run: 1, attemptsLeft: 3, failure: null });
      expect(record.workspace?.claimUid).toBe(left?.workspace?.claimUid);
      expect((await world.leftovers()).length).toBe(2);
      expect((await world.exec('hanging', ['echo', 'alive'])).stdout).toBe('alive\n');
    },
    120_000,
  );

  it('C93 leaves running instances alone, and its successor knows them', async () => {
    await world.operator.producer.launch(request('kept'));
    const before = await world.ready('kept');
    victim.process.kill('SIGTERM');
    expect(await exitCode()).toBe(0);
    await world.worker();
    expect(await world.ready('kept')).toMatchObject({ fence: before.fence, pod: before.pod });
    expect((await world.exec('kept', ['echo', 'alive'])).stdout).toBe('alive\n');
    await world.operator.producer.teardown({ version: 1, instanceId: 'kept' });
    await world.gone('kept');
  });

  it('exits 0 while Redis does not answer, before Redis is back', async () => {
    await world.operator.producer.launch(request('alone', { prepare: 'sleep 30' }));
    await world.until('alone', (record) => record?.pod !== null);
    process.kill(world.redis.pid, 'SIGSTOP');
    try {
      victim.process.kill('SIGTERM');
      // It does not wait for an answer: Redis goes on only when it is gone.
      expect(await exitCode()).toBe(0);
    } finally {
      process.kill(world.redis.pid, 'SIGCONT');
    }
    await world.operator.producer.teardown({ version: 1, instanceId: 'alone' });
    await world.worker();
    await world.gone('alone');
    expect(await world.leftovers()).toEqual([]);
  });
});
