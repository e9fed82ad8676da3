import { once } from 'node:events';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startClusterProcess } from '../support/cluster.ts';
import { countingSource, lazySink, liveBytes, standstill } from '../support/flat-memory.ts';
import { resumeSteps } from '../support/resume-steps.ts';
import { createWorld, type World } from '../support/world.ts';
import { start } from '../unit/cli/run.ts';

const total = 100 * 1024 * 1024;
/** What this process may hold of it. Kernels hold more on the way, some tens of MB in the sockets of all the hops: not ours to bound. */
const held = 8 * 1024 * 1024;

/** In a process of its own, so that what the cluster holds is not counted as ours. */
let cluster: Awaited<ReturnType<typeof startClusterProcess>>;
let world: World;

beforeAll(async () => {
  cluster = await startClusterProcess();
  const profile = { podTemplateFile: 'profiles/node.yaml', workspace: { mode: 'empty_dir' } };
  const profiles = { forward: profile, relay: { ...profile, handshake: 'exec' } };
  world = await createWorld({ kubeconfig: cluster.kubeconfig, namespace: 'default', image: 'node:24', config: { profiles } });
  await world.worker();
  for (const name of Object.keys(profiles)) await resumeSteps(world).launch(name, { profile: name });
});
afterAll(async () => {
  await world?.stop();
  await cluster?.close();
});

type Source = ReturnType<typeof countingSource>;
type Sink = ReturnType<typeof lazySink>;
type Move = (source: Source, sink: Sink, command: readonly string[]) => Promise<{ exitCode: number }>;

const throughCluster: Move = async ({ stream: stdin }, { stream: stdout }, command) => {
  const record = await world.operator.inventory.read('forward');
  const target = { pod: record?.pod?.name ?? '', container: 'agent' };
  return world.cluster.exec(target, command, { stdin, stdout, timeoutMs: 300_000 });
};
const throughAgent =
  (id: string): Move =>
  async ({ stream: stdin }, { stream: stdout }, command) => {
    const access = await world.operator.connectAgent(id);
    try {
      return await access.client.exec({ command, stdin: true }, { stdin, stdout, stderr: process.stderr });
    } finally {
      await access.close();
    }
  };
const ways: [string, Move][] = [
  ['pods/exec', throughCluster],
  ['the agent, by port-forward', throughAgent('forward')],
  ['the agent, by its relay over pods/exec', throughAgent('relay')],
];

describe('100 MB', () => {
  // The relay is both of the others in a row: a stop is enough of it.
  it.each(ways.slice(0, 2))(
    'there and back through %s: a reader that stops stops the source, and memory stays flat',
    async (_way, move) => {
      const [source, sink] = [countingSource(total), lazySink()];
      const before = liveBytes();
      const moved = move(source, sink, ['cat']);
      await standstill(() => source.pulled);
      expect(sink.received).toBeLessThan(total / 50);
      expect(liveBytes() - before).toBeLessThan(held);
      sink.open();
      expect(await moved).toMatchObject({ exitCode: 0 });
      expect([source.pulled, sink.received, sink.digest()]).toEqual([total, total, source.digest()]);
      expect(sink.peak - before).toBeLessThan(held);
    },
  );

  it.each(ways)(
    'through %s to a command that does not read: the source is stopped, and its end ends the call',
    async (_way, move) => {
      const [source, sink] = [countingSource(total), lazySink()];
      const before = liveBytes();
      const moved = move(source, sink, ['sh', '-c', 'until [ -e /workspace/go ]; do sleep 0.1; done; exit 3']);
      await standstill(() => source.pulled);
      expect(source.pulled).toBeLessThan(total);
      expect(liveBytes() - before).toBeLessThan(held);
      const other = countingSource(0);
      await move(other, lazySink(), ['touch', '/workspace/go']);
      expect(await moved).toMatchObject({ exitCode: 3 });
      await move(countingSource(0), lazySink(), ['rm', '/workspace/go']);
    },
  );
});

describe('windlass exec --json', () => {
  it('holds the command up while nobody reads what it prints, and loses none of it', async () => {
    const [blocks, block] = [100, 1 << 20];
    const script = `for i in \`seq ${blocks}\`; do head -c ${block} /dev/zero | tr '\\0' x; echo $i >/workspace/printed; done`;
    const child = start(['--json', '--config', world.loaded.file, 'exec', 'forward', '--', 'sh', '-c', script]);
    child.stderr?.resume();
    child.stdin?.end();
    const printed = async () => Number((await world.exec('forward', ['cat', '/workspace/printed'])).stdout) * block;
    await standstill(() => printed().catch(() => 0));
    expect(await printed()).toBeLessThan(total);
    let received = 0;
    let line = '';
    child.stdout?.on('data', (chunk: Buffer) => {
      const lines = (line + chunk.toString()).split('\n');
      line = lines.pop() ?? '';
      for (const text of lines) received += (JSON.parse(text) as { data?: string }).data?.length ?? 0;
    });
    expect((await once(child, 'close'))[0]).toBe(0);
    expect(received).toBe(blocks * block);
  });
});
