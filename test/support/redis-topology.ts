import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { poll } from '../../src/clock.ts';
import { freePort, startRedis, type TestRedis } from './redis.ts';

/** Asks a server directly, past any Sentinel or Cluster client. */
export async function askRedis<T>(port: number, use: (client: Redis) => Promise<T>): Promise<T> {
  const client = new Redis(port, '127.0.0.1', { maxRetriesPerRequest: 1, retryStrategy: () => null });
  client.on('error', () => undefined);
  try {
    return await use(client);
  } finally {
    client.disconnect();
  }
}

/** Repeats a question to a server that may not be there yet until the answer is yes. */
async function untilSo(what: string, port: number, holds: (client: Redis) => Promise<boolean>): Promise<void> {
  const ask = () => askRedis(port, holds).catch(() => false);
  if (!(await poll(ask, { everyMs: 50, forMs: 30_000 }))) throw new Error(`${what} within 30 s`);
}

/** One Sentinel that watches this master as `mymaster` and fails over after a second. Resolves once it knows it and its replicas. */
export async function startSentinel(master: number, replicas = 0): Promise<{ readonly port: number; stop(): Promise<void> }> {
  const port = await freePort();
  const dir = await mkdtemp(join(tmpdir(), 'windlass-sentinel-'));
  const settings = [
    `port ${port}`,
    'bind 127.0.0.1',
    `dir ${dir}`,
    `sentinel monitor mymaster 127.0.0.1 ${master} 1`,
    'sentinel down-after-milliseconds mymaster 1000',
    'sentinel failover-timeout mymaster 5000',
  ];
  // Sentinel rewrites its own file, so it gets one.
  const file = join(dir, 'sentinel.conf');
  await writeFile(file, `${settings.join('\n')}\n`);
  const child = spawn('redis-server', [file, '--sentinel'], { stdio: 'ignore' });
  const kill = () => child.kill('SIGKILL');
  process.once('exit', kill);
  await untilSo('Sentinel did not find the master and its replicas', port, async (client) => {
    const known = (await client.call('SENTINEL', 'replicas', 'mymaster')) as unknown[];
    return known.length >= replicas;
  });
  return {
    port,
    async stop() {
      process.off('exit', kill);
      const ended = once(child, 'exit');
      child.kill('SIGKILL');
      await ended;
      await rm(dir, { recursive: true, force: true });
    },
  };
}

export interface SentinelSet {
  readonly url: string;
  readonly master: TestRedis;
  /** The port of the master as Sentinel says. */
  masterPort(): Promise<number>;
  /** From now on the replicas hear nothing more, while whoever is connected to the master goes on. */
  cutReplicas(): Promise<void>;
  stop(): Promise<void>;
}

/** A master, two replicas that are in step with it, and a Sentinel. */
export async function startSentinelSet(): Promise<SentinelSet> {
  const master = await startRedis({ args: ['--repl-diskless-sync-delay', '0'] });
  const of = ['--replicaof', `127.0.0.1 ${master.port}`, '--repl-diskless-sync-delay', '0'];
  const replicas = await Promise.all([startRedis({ args: of }), startRedis({ args: of })]);
  for (const { port } of replicas) {
    const inStep = async (client: Redis) => (await client.info('replication')).includes('master_link_status:up');
    await untilSo('the replica did not follow', port, inStep);
  }
  const sentinel = await startSentinel(master.port, replicas.length);
  return {
    url: `redis+sentinel://127.0.0.1:${sentinel.port}/mymaster`,
    master,
    async masterPort() {
      const name = (client: Redis) => client.call('SENTINEL', 'get-master-addr-by-name', 'mymaster');
      return Number(((await askRedis(sentinel.port, name)) as string[])[1]);
    },
    async cutReplicas() {
      await askRedis(master.port, async (client) => {
        // Connections that are open stay open; a replica that comes again is refused.
        await client.config('SET', 'requirepass', 'not-told-to-replicas');
        await client.call('CLIENT', 'KILL', 'TYPE', 'replica');
      });
      for (const { port } of replicas) {
        const cut = async (client: Redis) => (await client.info('replication')).includes('master_link_status:down');
        await untilSo('the replica was not cut off', port, cut);
      }
    },
    async stop() {
      await sentinel.stop();
      for (const redis of [master, ...replicas]) await redis.stop();
    },
  };
}

export interface RedisCluster {
  readonly url: string;
  /** SIGKILL to the primary that has this key, `awayMs` nothing, and back with its data on its port. */
  restart(key: string, whileAway: () => Promise<void>): Promise<void>;
  stop(): Promise<void>;
}

/** Three primaries that share the slots; each keeps what it was told on disk. */
export async function startRedisCluster(): Promise<RedisCluster> {
  const dirs = await Promise.all([0, 1, 2].map(() => mkdtemp(join(tmpdir(), 'windlass-redis-cluster-'))));
  const start = async (dir: string, port?: number) => {
    // The bus has a port of its own: by default ten thousand higher, which may be no port at all.
    const bus = ['--cluster-port', String(await freePort()), '--cluster-announce-ip', '127.0.0.1'];
    const args = ['--cluster-enabled', 'yes', ...bus, '--cluster-node-timeout', '2000', '--appendonly', 'yes', '--dir', dir];
    return startRedis({ ...(port === undefined ? {} : { port }), args });
  };
  const nodes = await Promise.all(dirs.map((dir) => start(dir)));
  const last = 16_383;
  for (const [at, { port }] of nodes.entries()) {
    const [from, to] = [Math.ceil((at * last) / 3), at === 2 ? last : Math.ceil(((at + 1) * last) / 3) - 1];
    await askRedis(port, (client) => client.call('CLUSTER', 'ADDSLOTSRANGE', from, to));
  }
  const [first, ...others] = nodes as [TestRedis, ...TestRedis[]];
  for (const { port } of others) {
    const bus = await askRedis(port, (client) => client.config('GET', 'cluster-port'));
    await askRedis(first.port, (client) => client.call('CLUSTER', 'MEET', '127.0.0.1', port, Number((bus as string[])[1])));
  }
  const whole = async () => {
    for (const { port } of nodes)
      await untilSo('the Redis cluster is not whole', port, async (client) => {
        const info = String(await client.call('CLUSTER', 'INFO'));
        return info.includes('cluster_state:ok') && info.includes('cluster_known_nodes:3');
      });
  };
  await whole();
  return {
    url: `redis+cluster://${nodes.map(({ port }) => `127.0.0.1:${port}`).join(',')}`,
    async restart(key, whileAway) {
      const slot = Number(await askRedis(first.port, (client) => client.call('CLUSTER', 'KEYSLOT', key)));
      const at = Math.min(2, Math.floor((slot * 3) / last));
      const { port } = nodes[at] as TestRedis;
      await nodes[at]?.stop();
      await whileAway();
      nodes[at] = await start(dirs[at] as string, port);
      await whole();
    },
    async stop() {
      for (const node of nodes) await node.stop();
      for (const dir of dirs) await rm(dir, { recursive: true, force: true });
    },
  };
}
