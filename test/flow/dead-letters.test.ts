import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { withPlainQueue } from '../support/chaos/plain-queue.ts';
import { type EmbeddedCluster, startCluster } from '../support/cluster.ts';
import { writeFaults } from '../support/soak/api-faults.ts';
import { createWorld, type World } from '../support/world.ts';

let dir: string;
let embedded: EmbeddedCluster;
let world: World;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'windlass-letters-'));
  await writeFaults(join(dir, 'faults'), []);
  embedded = await startCluster({ faults: join(dir, 'faults') });
  world = await createWorld({ kubeconfig: embedded.kubeconfig, namespace: 'default', image: 'node:24' });
  await world.worker();
});
afterAll(async () => {
  await world?.stop();
  await embedded?.close();
  await rm(dir, { recursive: true, force: true });
});

afterEach(() => faulty([]));

const faulty = (rules: readonly object[]) => writeFaults(join(dir, 'faults'), rules);
const request = (instanceId: string, more: object = {}) => ({ version: 1, instanceId, profile: 'node', ...more });
const failed = (id: string) => world.until(id, (record) => record?.state === 'failed');
const letterOf = async (id: string) => (await world.operator.producer.deadLetters()).find((letter) => letter.instanceId === id);
/** The queue notes the end of a job after the record has its own. */
const posted = (id: string) => expect.poll(() => letterOf(id), { timeout: 20_000 }).toBeDefined();

async function clear(id: string): Promise<void> {
  await world.operator.producer.teardown({ version: 1, instanceId: id });
  await world.gone(id);
}

describe('a dead letter', () => {
  it('of a launch whose attempts are used up says why, with evidence; redriven it is a new run of the same generation with its secrets', async () => {
    // A failed create may still land and would be waited for; a failed exec made nothing.
    await faulty([
      { verb: 'create', resource: 'pods', subresource: 'exec', fault: { error: { code: 500, reason: 'InternalError' } } },
    ]);
    const accepted = await world.operator.producer.launch(request('worn out', { secretEnv: { TOKEN: 'kept' } }));
    const record = await failed('worn out');
    expect(record?.attemptsLeft).toBe(0);
    await posted('worn out');
    expect(await letterOf('worn out')).toMatchObject({
      queue: 'launch',
      jobId: accepted.jobId,
      generation: accepted.generation,
      run: 1,
      state: 'failed',
      reason: expect.stringContaining(record?.failure?.code ?? 'no code'),
      failure: { code: record?.failure?.code, stage: 'bootstrap', evidence: record?.failure?.evidence },
      redrivable: true,
    });

    await faulty([]);
    const [redriven] = await world.operator.producer.redrive('worn out');
    expect(redriven).toMatchObject({ jobId: accepted.jobId, newJobId: accepted.jobId.replace(/1$/, '2') });
    const ready = await world.ready('worn out');
    expect(ready).toMatchObject({ generation: accepted.generation, run: 2, attemptsLeft: 3, failure: null });
    expect((await world.exec('worn out', ['printenv', 'TOKEN'])).stdout).toBe('kept\n');
    expect(await letterOf('worn out')).toBeUndefined();
    await clear('worn out');
    expect(await world.leftovers()).toEqual([]);
  });

  it('sent twice at once makes one run; with --all only what nothing newer has overtaken is sent', async () => {
    const { producer } = world.operator;
    for (const id of ['one', 'two']) await producer.launch(request(id, { prepare: 'exit 9' }));
    for (const id of ['one', 'two']) await failed(id);
    for (const id of ['one', 'two']) await posted(id);
    // Sent anew, changed, by its owner: the letter of before means nothing any more.
    await producer.launch(request('two'));
    await world.ready('two');
    expect(await letterOf('two')).toMatchObject({ redrivable: false, failure: null });
    await expect(producer.redrive('two')).rejects.toMatchObject({ code: 'instance_conflict' });
    await expect(producer.redrive('three')).rejects.toMatchObject({ code: 'instance_not_found' });

    const answers = (await Promise.all([producer.redrive(undefined), producer.redrive(undefined)])).flat();
    expect(answers.every((answer) => answer.instanceId === 'one')).toBe(true);
    expect(new Set(answers.flatMap(({ newJobId }) => newJobId ?? [])).size).toBe(1);
    await world.until('one', (record) => record?.state === 'failed' && record.run === 2);
    for (const id of ['one', 'two']) await clear(id);
  });

  it('of a removal that broke a rule is a new run of the removal', async () => {
    const { producer } = world.operator;
    await producer.launch(request('stubborn'));
    const record = await world.ready('stubborn');
    await withRecordField(record.hash, 'namespace', 'elsewhere');
    await producer.teardown({ version: 1, instanceId: 'stubborn' });
    await posted('stubborn');
    expect(await letterOf('stubborn')).toMatchObject({ queue: 'teardown', reason: expect.stringContaining('invariant_broken') });
    expect((await world.leftovers()).length).toBe(2);
    await withRecordField(record.hash, 'namespace', 'default');
    await expect.poll(() => producer.redrive('stubborn').then(([answer]) => answer?.newJobId), { timeout: 20_000 }).toBeTruthy();
    await world.gone('stubborn');
    expect(await world.leftovers()).toEqual([]);
  });

  it('of a raw job that was refused is tried again as it is', async () => {
    await withPlainQueue(world, 'launch', async (queue) => {
      await queue.add('launch', { version: 1, instanceId: 'raw', profile: 'nobody knows it' }, { jobId: 'raw-1' });
      await posted('raw');
      expect(await letterOf('raw')).toMatchObject({ jobId: 'raw-1', generation: null, redrivable: true });
      const before = (await queue.getJob('raw-1'))?.attemptsMade ?? 0;
      expect(await world.operator.producer.redrive('raw-1')).toMatchObject([{ jobId: 'raw-1', newJobId: 'raw-1' }]);
      const tried = async () => {
        const job = await queue.getJob('raw-1');
        return (job?.attemptsMade ?? 0) > before && (await job?.isFailed());
      };
      await expect.poll(tried, { timeout: 20_000 }).toBe(true);
    });
  });
});

async function withRecordField(hash: string, field: string, value: string): Promise<void> {
  const { Redis } = await import('ioredis');
  const client = new Redis(world.redis.url);
  await client.hset(`{windlass:${world.loaded.config.installation}:inventory}:record:${hash}`, field, value);
  client.disconnect();
}
