import { poll, sleep } from '../../../src/clock.ts';
import type { World } from '../world.ts';
import { persist } from './client.ts';
import type { Fleet } from './fleet.ts';
import type { LastingRedis } from './lasting-redis.ts';

export interface TroubleOptions {
  readonly world: World;
  readonly fleet: Fleet;
  readonly redis: LastingRedis;
  readonly random: (below: number) => number;
  /** Seconds between two troubles, at most. */
  readonly everySeconds: number;
  /** The instances that are alive now. */
  readonly living: () => readonly string[];
  readonly told: (what: string) => void;
}

export interface Trouble {
  readonly counts: Readonly<Record<string, number>>;
  /** Of each instance that a killed worker held: ms from the kill to the first write of the next holder. */
  readonly recoveryMs: readonly number[];
  /** Resolves when everything that was stopped runs again. */
  stop(): Promise<void>;
}

type Act = 'kill' | 'pause' | 'roll' | 'redis';
/** One round: drawn in another order each time, so that a short soak meets all of them, too. */
const round: readonly Act[] = ['kill', 'pause', 'kill', 'redis', 'roll', 'kill', 'pause'];

/** Kills, pauses and replaces workers, and restarts Redis, until it is told to stop. */
export function startTrouble(options: TroubleOptions): Trouble {
  const { fleet, random, redis, told } = options;
  const counts: Record<Act, number> = { kill: 0, pause: 0, roll: 0, redis: 0 };
  const recoveryMs: number[] = [];
  const stopping = new AbortController();
  const watches: Promise<void>[] = [];
  const acts: Readonly<Record<Act, () => Promise<void>>> = {
    async kill() {
      const held = await soonHeld(options);
      watches.push(...held.map((one) => watchRecovery(options, one, recoveryMs)));
      await fleet.kill(random(fleet.size), held[0]?.pid);
    },
    pause: () => fleet.pause(random(fleet.size), 500 + random(8000)),
    roll: () => fleet.roll(random(fleet.size)),
    redis: () => redis.restart(random(3000)),
  };
  const rest = async () => {
    const ms = (options.everySeconds * 1000 * (25 + random(75))) / 100;
    await sleep(ms, stopping.signal).catch(() => undefined);
  };
  const running = (async () => {
    while (!stopping.signal.aborted) {
      const bag = [...round];
      while (bag.length > 0) {
        await rest();
        if (stopping.signal.aborted) return;
        const act = bag.splice(random(bag.length), 1)[0] as Act;
        counts[act] += 1;
        told(act);
        await acts[act]();
      }
    }
  })();
  return {
    counts,
    recoveryMs,
    async stop() {
      stopping.abort();
      await running;
      await Promise.all(watches);
    },
  };
}

interface Held {
  readonly id: string;
  readonly pid: number;
  readonly fence: string;
}

/** Leases are short: a kill waits a little for one, so that most kills hit work. */
async function soonHeld(options: TroubleOptions): Promise<Held[]> {
  let held: Held[] = [];
  const found = async () => {
    held = await heldBySomeWorker(options);
    return held.length > 0;
  };
  await poll(found, { everyMs: 20, forMs: 3000 });
  return held;
}

/** All that the worker holds which holds the first found: it is the one to kill. */
async function heldBySomeWorker({ world, fleet, living }: TroubleOptions): Promise<Held[]> {
  const pids = fleet.pids();
  const held = await Promise.all(
    living().map(async (id): Promise<Held[]> => {
      const { inventory } = world.operator;
      const lease = await persist(() => inventory.leaseHolder(inventory.hashOf(id)));
      const record = lease && (await persist(() => inventory.read(id)));
      const pid = pids.find((one) => lease?.holder.includes(`-${one}-`));
      return record === undefined || pid === undefined ? [] : [{ id, pid, fence: record.fence }];
    }),
  );
  const all = held.flat();
  return all.filter(({ pid }) => pid === all[0]?.pid);
}

async function watchRecovery({ world }: TroubleOptions, held: Held, samples: number[]): Promise<void> {
  const killedAt = Date.now();
  const atRest = ['ready', 'failed', 'suspended'];
  for (;;) {
    const record = await persist(() => world.operator.inventory.read(held.id));
    // It had ended before the kill came: nothing was left to recover.
    if (record === undefined || (record.fence === held.fence && atRest.includes(record.state))) return;
    if (record.fence !== held.fence) {
      samples.push(Date.now() - killedAt);
      return;
    }
    if (Date.now() - killedAt > 120_000) return;
    await sleep(50);
  }
}
