import { type ChildProcess, spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { connect, createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { endWithUs } from './children.ts';

export interface TestRedis {
  readonly url: string;
  readonly port: number;
  readonly pid: number;
  /** Ends the server by its pid and removes its folder. */
  stop(): Promise<void>;
}

/**
 * A real redis-server of this test's own: a free port on loopback, a temporary folder, nothing persisted, noeviction.
 * `port` gives a server that was stopped its old port back; `args` are added to the command line.
 */
export async function startRedis(options: { port?: number; args?: readonly string[] } = {}): Promise<TestRedis> {
  // Another process may take the free port between the probe and the bind; a fixed port is tried once.
  const attempts = options.port === undefined ? 5 : 1;
  for (let attempt = 1; ; attempt++) {
    const port = options.port ?? (await freePort());
    const dir = await mkdtemp(join(tmpdir(), 'windlass-redis-'));
    const child = spawnServer(port, dir, options.args ?? []);
    try {
      await untilReady(child, port);
      return running(child, port, dir);
    } catch (error) {
      await end(child);
      await rm(dir, { recursive: true, force: true });
      if (attempt === attempts) throw error;
    }
  }
}

/** A TCP port on 127.0.0.1 that nobody uses right now. */
export async function freePort(): Promise<number> {
  const server = createServer();
  await new Promise<void>((resolve, reject) => server.once('error', reject).listen(0, '127.0.0.1', resolve));
  const address = server.address();
  await new Promise((resolve) => server.close(resolve));
  if (address === null || typeof address === 'string') throw new Error('no port was given');
  return address.port;
}

function spawnServer(port: number, dir: string, args: readonly string[]): ChildProcess {
  const settings = ['--port', String(port), '--bind', '127.0.0.1', '--dir', dir, '--save', '', '--appendonly', 'no'];
  const child = spawn('redis-server', [...settings, '--maxmemory-policy', 'noeviction', '--daemonize', 'no', ...args], {
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  endWithUs(child);
  return child;
}

/** Redis logs this line once it accepts connections; its first words before that explain a failed start. */
function untilReady(child: ChildProcess, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    let log = '';
    const fail = (why: string) => reject(new Error(`redis-server on port ${port} ${why}\n${log}`));
    const timer = setTimeout(() => fail('did not start within 20 s'), 20_000);
    child.once('error', (error) => fail(`cannot be run: ${error.message}`));
    child.once('exit', (code) => fail(`ended with ${code}`));
    child.stdout?.setEncoding('utf8').on('data', (text: string) => {
      log = (log + text).slice(-8192);
      if (!/Ready to accept connections/i.test(log)) return;
      clearTimeout(timer);
      connect({ port, host: '127.0.0.1' })
        .once('connect', function (this: ReturnType<typeof connect>) {
          this.destroy();
          resolve();
        })
        .once('error', reject);
    });
  });
}

function running(child: ChildProcess, port: number, dir: string): TestRedis {
  return {
    url: `redis://127.0.0.1:${port}`,
    port,
    pid: child.pid as number,
    async stop() {
      await end(child);
      await rm(dir, { recursive: true, force: true });
    },
  };
}

async function end(child: ChildProcess): Promise<void> {
  if (child.pid === undefined || child.exitCode !== null || child.signalCode !== null) return;
  const ended = new Promise((resolve) => child.once('exit', resolve));
  child.kill('SIGKILL');
  await ended;
}
