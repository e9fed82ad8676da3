import { poll } from '../../../src/clock.ts';
import { builtSweeps } from '../../../src/jobs/catalog.ts';
import type { WorkerHandle } from '../../../src/main.ts';
import { randomInt } from '../random.ts';
import { createWorld, type World } from '../world.ts';
import { type Scenario, scenarios } from './scenarios.ts';
import { standby, type Victim } from './victim.ts';

export interface MatrixOptions {
  readonly kubeconfig: string;
  readonly namespace: string;
  readonly image: string;
  /** Kills under way at a time, each with a Redis and an installation of its own. */
  readonly lanes: number;
  /** Only so many scenarios, and so many kills over them, drawn by `seed`; all of them when undefined. */
  readonly share?: { readonly scenarios: number; readonly kills: number; readonly seed: number };
  /** Only scenarios whose name has this in it. */
  readonly only?: string;
  /** Only this effect, without looking for the others first: to see one kill again. */
  readonly point?: string;
  readonly told?: (result: KillResult) => void;
}

export interface KillResult {
  readonly scenario: string;
  /** `after kube.create.pods#1`. */
  readonly point: string;
  /** `not_reached`: this run did without that effect (a timer's, or a look that came early); the end was right all the same. */
  readonly outcome: 'passed' | 'failed' | 'not_reached';
  readonly error?: string;
  /** From the kill to the first write of the worker that took over, its own start included. */
  readonly resumedMs?: number;
  readonly durationMs: number;
}

interface Kill {
  readonly scenario: Scenario;
  readonly point: string;
}

/** Kills a worker at every effect of every scenario, or at a share of them, and says how each ended. */
export async function crashMatrix(options: MatrixOptions): Promise<KillResult[]> {
  const lanes = await Promise.all(Array.from({ length: options.lanes }, (_, at) => openLane(options, at)));
  try {
    const kills = await findKills(lanes, options);
    const results: KillResult[] = [];
    await eachLane(lanes, kills, async (lane, kill) => {
      const result = await lane.kill(kill.scenario, kill.point);
      results.push(result);
      options.told?.(result);
    });
    return results;
  } finally {
    await Promise.all(lanes.map((lane) => lane.close()));
  }
}

async function findKills(lanes: readonly Lane[], options: MatrixOptions): Promise<Kill[]> {
  const known = scenarios.filter((scenario) => scenario.name.includes(options.only ?? ''));
  const random = randomInt(options.share?.seed ?? 0);
  const draw = <T>(from: T[], count: number) =>
    Array.from({ length: Math.min(count, from.length) }, () => from.splice(random(from.length), 1)[0] as T);
  const chosen = options.share === undefined ? known : draw([...known], options.share.scenarios);
  const { point } = options;
  if (point !== undefined) return chosen.map((scenario) => ({ scenario, point }));
  const kills: Kill[] = [];
  await eachLane(lanes, chosen, async (lane, scenario) => {
    for (const point of await lane.record(scenario)) kills.push({ scenario, point });
  });
  kills.sort((a, b) => (`${a.scenario.name} ${a.point}` < `${b.scenario.name} ${b.point}` ? -1 : 1));
  return options.share === undefined ? kills : draw(kills, options.share.kills);
}

async function eachLane<T>(
  lanes: readonly Lane[],
  work: readonly T[],
  run: (lane: Lane, item: T) => Promise<void>,
): Promise<void> {
  const left = [...work];
  const take = async (lane: Lane) => {
    for (let item = left.shift(); item !== undefined; item = left.shift()) await run(lane, item);
  };
  await Promise.all(lanes.map(take));
}

interface Lane {
  /** Every effect of one undisturbed run. */
  record(scenario: Scenario): Promise<string[]>;
  kill(scenario: Scenario, point: string): Promise<KillResult>;
  close(): Promise<void>;
}

async function openLane(options: MatrixOptions, at: number): Promise<Lane> {
  const { kubeconfig, namespace, image } = options;
  const config = { installation: `lane-${at}`, sweeps: Object.fromEntries(builtSweeps.map((kind) => [kind, { every: 86_400 }])) };
  const world = await createWorld({ kubeconfig, namespace, image, config });
  const next = new Map<string, Promise<Victim>>();
  let heir: WorkerHandle | undefined;
  let runs = 0;
  const victim = async (queues: string) => {
    const taken = await (next.get(queues) ?? standby(world.loaded, queues));
    next.set(queues, standby(world.loaded, queues));
    return taken;
  };
  /** Prepares, starts the victim alone, asks, and lets `wait` decide when the heir comes. */
  const run = async (
    scenario: Scenario,
    arm: (victim: Victim) => Promise<void>,
    wait: (victim: Victim, id: string) => Promise<void>,
  ) => {
    const id = `${scenario.name} ${runs++}`;
    const one = await victim(scenario.queues);
    try {
      heir ??= await world.worker();
      const before = await scenario.prepare(world, id);
      await heir.close();
      heir = undefined;
      await one.start();
      await arm(one);
      await scenario.ask(world, id, before);
      await wait(one, id);
      const died = await world.operator.inventory.read(id);
      const resumed = resumption(world, id, died?.fence);
      heir = await world.worker();
      await scenario.end(world, id, before, died);
      return await resumed();
    } finally {
      await one.end();
      heir ??= await world.worker();
      await clear(world, id);
    }
  };
  return {
    record: (scenario) => recordEffects(scenario, run),
    async kill(scenario, point) {
      const startedAt = Date.now();
      let reached = true;
      let quiet: Quiet = async () => {};
      const about = () => ({ scenario: scenario.name, point, durationMs: Date.now() - startedAt });
      try {
        const resumedMs = await run(
          scenario,
          async (one) => {
            quiet = await quietness(one);
            await one.at(point, 'kill');
          },
          async (one) => {
            reached = await Promise.race([one.dead.then(() => true), quiet(8000).then(() => false)]);
          },
        );
        if (!reached) return { ...about(), outcome: 'not_reached' };
        return { ...about(), outcome: 'passed', ...(resumedMs === undefined ? {} : { resumedMs }) };
      } catch (error) {
        return { ...about(), outcome: 'failed', error: error instanceof Error ? error.message : String(error) };
      }
    },
    async close() {
      for (const waiting of next.values()) await (await waiting).end();
      await world.stop();
    },
  };
}

type Run = (
  scenario: Scenario,
  arm: (victim: Victim) => Promise<void>,
  wait: (victim: Victim, id: string) => Promise<void>,
) => Promise<number | undefined>;

/** Resolves when a victim has had no effect for this many ms (a minute at most): it has nothing left to do. */
type Quiet = (ms: number) => Promise<void>;

async function quietness(victim: Victim, seen: (point: string) => void = () => {}): Promise<Quiet> {
  let lastAt = Date.now();
  await victim.watch((point) => {
    seen(point);
    // The renewal of a lease goes on for as long as nothing else does.
    if (!point.includes('redis.renew')) lastAt = Date.now();
  });
  return async (ms) => void (await poll(async () => Date.now() - lastAt > ms, { everyMs: 100, forMs: 60_000 }));
}

async function recordEffects(scenario: Scenario, run: Run): Promise<string[]> {
  const points = new Set<string>();
  let quiet: Quiet = async () => {};
  await run(
    scenario,
    async (one) => {
      quiet = await quietness(one, (point) => points.add(point));
    },
    () => quiet(3000),
  );
  // Timers and hints repeat these as often as time goes by; the first few stand for all.
  return [...points].filter(
    (point) => !/ (redis\.renew#(?!1$)|(redis\.(claim-waiters|wake|begin)|queue\.(delay|promote))#(?![1-3]$))/.test(point),
  );
}

/** Starts a watch for the first write of the next holder; the returned question waits for nothing more. */
function resumption(world: World, id: string, fence: string | undefined): () => Promise<number | undefined> {
  const startedAt = Date.now();
  let seen: number | undefined;
  let over = false;
  const watching = (async () => {
    while (!over && seen === undefined && fence !== undefined) {
      const now = await world.operator.inventory.read(id);
      if (now?.fence !== fence) seen = Date.now() - startedAt;
      else await new Promise((resolve) => setTimeout(resolve, 50));
    }
  })();
  return async () => {
    over = true;
    await watching;
    return seen;
  };
}

/** Whatever the run left is removed, so that the next one starts from nothing; a failed run may leave a lot. */
async function clear(world: World, id: string): Promise<void> {
  if ((await world.operator.inventory.read(id)) === undefined) return;
  await world.operator.producer.teardown({ version: 1, instanceId: id });
  await world.gone(id);
}
