import type { ChildProcess } from 'node:child_process';
import { once } from 'node:events';
import { sleep } from '../../../src/clock.ts';
import type { World } from '../world.ts';

/** The worker processes of a soak: as many as asked for, but while one is being replaced. */
export interface Fleet {
  readonly size: number;
  /** SIGKILL to the one at this place, or to the one with this pid, and another one in its stead. */
  kill(place: number, pid?: number): Promise<void>;
  /** SIGTERM: it hands its jobs back; another one in its stead. Throws unless it exits 0. */
  roll(place: number): Promise<void>;
  /** SIGSTOP for that long, then SIGCONT. */
  pause(place: number, ms: number): Promise<void>;
  /** What nobody told a worker to do: exits of their own, and rolls that did not end with 0. */
  readonly unexpected: readonly string[];
  pids(): number[];
}

export async function startFleet(world: World, size: number): Promise<Fleet> {
  const unexpected: string[] = [];
  const told = new WeakSet<ChildProcess>();
  const places = await Promise.all(Array.from({ length: size }, start));

  async function start(): Promise<ChildProcess> {
    const child = await startOne(world);
    child.once('exit', (code, signal) => {
      if (!told.has(child)) unexpected.push(`worker ${child.pid} ended by itself with ${code ?? signal}`);
    });
    return child;
  }
  async function end(place: number, signal: 'SIGKILL' | 'SIGTERM'): Promise<unknown> {
    const child = places[place] as ChildProcess;
    told.add(child);
    // One that ended by itself is in `unexpected`; another one comes in its stead all the same.
    if (child.exitCode !== null || child.signalCode !== null) return 0;
    const ended = once(child, 'exit');
    child.kill(signal);
    const [code] = await ended;
    return code;
  }
  return {
    size,
    unexpected,
    pids: () => places.map((child) => child.pid as number),
    async kill(place, pid) {
      const at = places.findIndex((child) => child.pid === pid);
      await end(at < 0 ? place : at, 'SIGKILL');
      places[at < 0 ? place : at] = await start();
    },
    async roll(place) {
      const code = await end(place, 'SIGTERM');
      if (code !== 0) unexpected.push(`a worker that was told to stop ended with ${code}`);
      places[place] = await start();
    },
    async pause(place, ms) {
      const child = places[place] as ChildProcess;
      child.kill('SIGSTOP');
      await sleep(ms);
      child.kill('SIGCONT');
    },
  };
}

/** As an orchestrator does: a worker that starts while Redis is away ends, and is started again. */
async function startOne(world: World): Promise<ChildProcess> {
  for (let tries = 1; ; tries++) {
    try {
      return await world.workerProcess({ WINDLASS__LOG__LEVEL: 'debug' });
    } catch (error) {
      if (tries === 10) throw error;
      await sleep(500);
    }
  }
}
