import { connect, createServer, type Server, type Socket } from 'node:net';
import { afterEach, describe, expect, test } from 'vitest';
import { redisSchema } from '../../src/config/schema.ts';
import { type State, states } from '../../src/inventory/types.ts';
import { begin, intend, launchOf, ready, refusal, remove, tag, useWorld } from './inventory-support.ts';

const world = useWorld();
const recordKey = (id: string) => `${tag}:record:${world.inventory.hashOf(id)}`;

/** Design §5, and the three that the rules around it need: relaunch after a failure, after a removal, rollback again. */
const legal: Readonly<Record<State, readonly State[]>> = {
  requested: ['launching', 'removing'],
  launching: ['ready', 'rolling_back', 'removing'],
  rolling_back: ['requested', 'failed', 'suspended', 'lost', 'cleanup_pending', 'removing'],
  ready: ['lost', 'suspended', 'removing'],
  lost: ['launching', 'removing'],
  suspended: ['launching', 'removing'],
  failed: ['launching', 'requested', 'removing'],
  removing: ['suspended', 'requested', 'cleanup_pending'],
  cleanup_pending: ['removing', 'rolling_back'],
};

describe('a state', () => {
  test.each(states)('%s changes only as the diagram says', async (from) => {
    const { inventory, raw } = world;
    const { lease } = await begin(inventory, 'a', await intend(inventory, 'a'));
    for (const to of states) {
      await raw.hset(recordKey('a'), 'state', from);
      const answer = await refusal(inventory.write(lease, { state: to }));
      const allowed = from === to || legal[from].includes(to);
      expect(`${from} → ${to}: ${answer}`).toBe(`${from} → ${to}: ${allowed ? 'not refused' : 'invariant_broken'}`);
      expect(await raw.hget(recordKey('a'), 'state')).toBe(allowed ? to : from);
    }
  });
});

describe('a write', () => {
  test('merges fields, appends events, keeps and drops secrets in one go', async () => {
    const { inventory } = world;
    const accepted = await intend(inventory, 'a');
    const { lease } = await begin(inventory, 'a', accepted, { set: { namespace: 'sandboxes', cluster: 'other' } });
    const pod = { name: 'p', uid: 'u', node: 'n', ip: '10.0.0.1', createdByGeneration: accepted.generation };
    await inventory.write(lease, { set: { pod }, secrets: { agentToken: 'x', agentNonce: 'y' } });
    await inventory.write(lease, { state: 'ready', secrets: { agentNonce: null }, events: [{ type: 'ready', note: 'é' }] });
    expect(await inventory.read('a')).toMatchObject({ state: 'ready', namespace: 'sandboxes', cluster: 'other', pod });
    expect((await inventory.read('a'))?.readyAt).toBeGreaterThan(0);
    expect(await inventory.secrets(inventory.hashOf('a'))).toEqual({ agentToken: 'x' });
    expect((await inventory.events('a', 1, 10))[0]).toMatchObject({
      seq: 2,
      type: 'ready',
      note: 'é',
      generation: accepted.generation,
    });
  });

  test('of text with control characters, quotes and half a surrogate pair comes back readable', async () => {
    const { inventory } = world;
    const { lease } = await begin(inventory, 'a', await intend(inventory, 'a'));
    await inventory.write(lease, { set: { namespace: '\u0000"\\\n💥\ud800', limits: { cpu: '\u2028"' } } });
    expect(await inventory.read('a')).toMatchObject({ namespace: '\u0000"\\\n💥\ufffd', limits: { cpu: '\u2028"' } });
  });

  test('of a field that only scripts decide on is refused', async () => {
    const { inventory } = world;
    const { lease } = await begin(inventory, 'a', await intend(inventory, 'a'));
    for (const set of [{ generation: 1 }, { owner: 'bob' }, { fence: '9' }, { intent: 'absent' as const }]) {
      expect(await refusal(inventory.write(lease, { set }))).toBe('invariant_broken');
    }
  });

  test('after its record is gone is refused, and makes none', async () => {
    const { inventory, raw } = world;
    const { lease } = await begin(inventory, 'a', await intend(inventory, 'a'));
    await raw.del(recordKey('a'));
    expect(await refusal(inventory.write(lease, { state: 'ready' }))).toBe('lease_lost');
    expect(await inventory.read('a')).toBeUndefined();
  });

  test('by a launch is refused once a newer generation exists, and the removal goes on (I10, I11)', async () => {
    const { inventory } = world;
    const { lease } = await begin(inventory, 'a', await intend(inventory, 'a'));
    const removal = await remove(inventory, 'a');
    expect(await refusal(inventory.write(lease, { state: 'ready' }))).toBe('superseded');
    await lease.release();
    expect((await begin(inventory, 'a', removal, { verb: 'teardown' })).record.state).toBe('removing');
  });

  test('that releases ends the crash count and frees the lease', async () => {
    const { inventory } = world;
    const accepted = await intend(inventory, 'a');
    const { lease, record } = await begin(inventory, 'a', accepted);
    expect(record.crashes).toBe(1);
    await inventory.write(lease, { release: true });
    expect((await inventory.read('a'))?.crashes).toBe(0);
    expect(await inventory.leaseHolder(inventory.hashOf('a'))).toBeUndefined();
    expect(await refusal(inventory.write(lease, { state: 'ready' }))).toBe('lease_lost');
  });
});

describe('a launch job', () => {
  test('whose run has ended is settled, for each end', async () => {
    const { inventory } = world;
    for (const end of ['ready', 'failed'] as const) {
      const accepted = await intend(inventory, end);
      const { lease } = await begin(inventory, end, accepted);
      if (end === 'failed') await inventory.write(lease, { state: 'rolling_back' });
      await inventory.write(lease, { state: end });
      // Its worker may die right here: no run begins again that could count it.
      expect((await inventory.read(end))?.crashes).toBe(0);
      await lease.release();
      const again = await inventory.begin(end, { verb: 'launch', generation: accepted.generation, run: 1 });
      expect(again).toMatchObject({ kind: 'settled', record: { state: end } });
    }
  });

  test('that rolled back with attempts left goes on from what was before; without, it is settled', async () => {
    const { inventory } = world;
    await ready(inventory, 'a');
    const sweep = await inventory.tryLease(inventory.hashOf('a'));
    await inventory.write(sweep!, { state: 'lost', release: true });
    const accepted = await intend(inventory, 'a');
    const first = await begin(inventory, 'a', accepted);
    await inventory.write(first.lease, { state: 'rolling_back', set: { attemptsLeft: 1 } });
    await inventory.write(first.lease, { state: 'lost', release: true });
    const second = await begin(inventory, 'a', accepted);
    expect(second.record).toMatchObject({ state: 'launching', before: 'lost' });
    await inventory.write(second.lease, { state: 'rolling_back', set: { attemptsLeft: 0 } });
    await inventory.write(second.lease, { state: 'lost', release: true });
    const third = await inventory.begin('a', { verb: 'launch', generation: accepted.generation, run: accepted.run });
    expect(third.kind).toBe('settled');
  });

  test('that gave up goes back to suspended, and a later request is a new generation on the kept workspace', async () => {
    const { inventory } = world;
    await ready(inventory, 'a');
    const removal = await remove(inventory, 'a', 'suspended');
    const teardown = await begin(inventory, 'a', removal, { verb: 'teardown' });
    await inventory.finishRemoval(teardown.lease, { generation: removal.generation, suspended: true });
    const accepted = await intend(inventory, 'a');
    const { lease } = await begin(inventory, 'a', accepted);
    await inventory.write(lease, { state: 'rolling_back', set: { attemptsLeft: 0 } });
    await inventory.write(lease, { state: 'suspended', release: true });
    const again = await intend(inventory, 'a', { requestHash: 'h2' });
    expect(again).toMatchObject({ kind: 'accepted', state: 'suspended', run: 1 });
    expect(again.generation).toBeGreaterThan(accepted.generation);
  });

  test('that names the generation of a removal launches nothing', async () => {
    const { inventory } = world;
    await ready(inventory, 'a');
    const removal = await remove(inventory, 'a');
    const forged = { verb: 'launch' as const, generation: removal.generation, run: 1 };
    expect(await inventory.begin('a', forged)).toEqual({ kind: 'superseded' });
    expect((await inventory.read('a'))?.state).toBe('ready');
  });

  test('that crashed is counted, and resumes in the state it was in', async () => {
    const { inventory, raw } = world;
    const accepted = await intend(inventory, 'a');
    for (const crashes of [1, 2, 3]) {
      const worker = await world.open({ holder: `worker-${crashes + 1}` });
      const { record, lease } = await begin(worker, 'a', accepted);
      expect(record).toMatchObject({ crashes, state: crashes < 3 ? 'launching' : 'rolling_back' });
      if (crashes === 2) await worker.write(lease, { state: 'rolling_back' });
      await raw.del(`${tag}:lease:${inventory.hashOf('a')}`);
    }
  });

  test('whose rollback could not clean up takes the rollback up again', async () => {
    const { inventory } = world;
    const accepted = await intend(inventory, 'a');
    const { lease } = await begin(inventory, 'a', accepted);
    await inventory.write(lease, { state: 'rolling_back' });
    await inventory.write(lease, { state: 'cleanup_pending', release: true });
    expect((await begin(inventory, 'a', accepted)).record.state).toBe('rolling_back');
  });

  test('of nothing is missing', async () => {
    expect(await world.inventory.begin('nothing', { verb: 'launch', generation: 1, run: 1 })).toEqual({ kind: 'missing' });
    expect(await world.inventory.begin('nothing', { verb: 'teardown', generation: 1, run: 1 })).toEqual({ kind: 'missing' });
  });
});

describe('a script whose answer is lost on the way is sent again by the client and', () => {
  let proxy: Proxy | undefined;
  afterEach(async () => {
    await proxy?.close();
    proxy = undefined;
  });

  const viaProxy = async () => {
    proxy = await startProxy(world.redis.port);
    return world.open({ redis: redisSchema.parse({ url: `redis://127.0.0.1:${proxy.port}` }) });
  };

  test('happens once: an intent, a begin, a write, the end of a removal', async () => {
    const inventory = await viaProxy();
    const lossy = proxy as Proxy;
    // Loads the scripts, so that the lost answer is the one of the script itself.
    await ready(inventory, 'warm');
    const warm = await remove(inventory, 'warm');
    const warmed = await begin(inventory, 'warm', warm, { verb: 'teardown' });
    await inventory.finishRemoval(warmed.lease, { generation: warm.generation, suspended: false });

    lossy.loseNextAnswer();
    const accepted = await inventory.intendLaunch(launchOf('a'));
    expect(accepted).toMatchObject({ kind: 'accepted', run: 1 });
    if (!('generation' in accepted)) throw new Error('unreachable');

    lossy.loseNextAnswer();
    const { lease, record } = await begin(inventory, 'a', accepted);
    expect(record).toMatchObject({ crashes: 1, fence: lease.fence });

    lossy.loseNextAnswer();
    await inventory.write(lease, { state: 'ready', events: [{ type: 'ready' }], release: true });
    expect((await inventory.events('a', 0, 10)).map((event) => event.type)).toEqual(['requested', 'ready']);

    const removal = await remove(inventory, 'a');
    const teardown = await begin(inventory, 'a', removal, { verb: 'teardown' });
    lossy.loseNextAnswer();
    expect(await inventory.finishRemoval(teardown.lease, { generation: removal.generation, suspended: false })).toBe('gone');
    expect((await inventory.events('a', 0, 10)).map((event) => event.type)).toEqual(['requested', 'ready', 'removing', 'gone']);
    expect(lossy.lost()).toBe(4);
  });
});

interface Proxy {
  readonly port: number;
  /** The next script is passed on, its answer is not: the connection breaks instead. */
  loseNextAnswer(): void;
  lost(): number;
  close(): Promise<void>;
}

async function startProxy(target: number): Promise<Proxy> {
  let lose = false;
  let lost = 0;
  const sockets = new Set<Socket>();
  const server: Server = createServer((client) => {
    const redis = connect(target, '127.0.0.1');
    let swallow = false;
    for (const socket of [client, redis]) {
      sockets.add(socket);
      socket.on('error', () => socket.destroy());
    }
    client.on('data', (chunk) => {
      if (lose && chunk.includes('evalsha')) {
        lose = false;
        swallow = true;
      }
      redis.write(chunk);
    });
    redis.on('data', (chunk) => {
      if (!swallow) return void client.write(chunk);
      lost++;
      client.destroy();
      redis.destroy();
    });
    client.on('close', () => redis.destroy());
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  return {
    port: (server.address() as { port: number }).port,
    loseNextAnswer: () => {
      lose = true;
    },
    lost: () => lost,
    async close() {
      for (const socket of sockets) socket.destroy();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
