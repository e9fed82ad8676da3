import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { sleep } from '../../../src/clock.ts';
import { startRedis, type TestRedis } from '../redis.ts';

export interface LastingRedis {
  readonly redis: TestRedis;
  /** Where it keeps what it was told: every command is on disk before it is answered, and nothing in it is compressed. */
  readonly dir: string;
  /** SIGKILL, away for `awayMs`, and back on its port with its data. */
  restart(awayMs: number): Promise<void>;
  stop(): Promise<void>;
}

export async function startLastingRedis(): Promise<LastingRedis> {
  const dir = await mkdtemp(join(tmpdir(), 'windlass-soak-redis-'));
  const durable = ['--appendonly', 'yes', '--appendfsync', 'always', '--rdbcompression', 'no'];
  const start = (port?: number) => startRedis({ ...(port === undefined ? {} : { port }), args: ['--dir', dir, ...durable] });
  let redis = await start();
  return {
    dir,
    get redis() {
      return redis;
    },
    async restart(awayMs) {
      const { port } = redis;
      await redis.stop();
      await sleep(awayMs);
      redis = await start(port);
    },
    async stop() {
      await redis.stop();
      await rm(dir, { recursive: true, force: true });
    },
  };
}
