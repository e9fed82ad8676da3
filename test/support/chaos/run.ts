import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { poll } from '../../../src/clock.ts';
import { builtSweeps } from '../../../src/jobs/catalog.ts';
import type { TestRedis } from '../redis.ts';
import { createWorld, type World } from '../world.ts';
import { assertEnd, livePod, openJobs, type Run } from './end-state.ts';
import type { Scenario } from './scenarios.ts';
import { type Hunt, standby, type Victim } from './victim.ts';

/** What all runs of a matrix share: each has an installation of its own in it. */
export interface Ground {
  readonly kubeconfig: string;
  readonly redis: TestRedis;
  /** What was made for an instance since this is called, by the API server's log. */
  watchCreates(hash: string): Promise<Run['made']>;
  /** Ways to close what runs have opened, for when they cannot do it themselves. */
  readonly open: Set<() => Promise<void>>;
}

export interface Ended {
  /** `after kube.create.pods#1`; undefined = the victim lived, since all that it did was died at before. */
  readonly point: string | undefined;
  readonly error?: string;
  /** From the kill to the first write of the worker that took over, its own start included. */
  readonly resumedMs?: number;
}

/** Where the victim dies: somewhere new, or at this point. */
export type Death = Hunt | { readonly point: string };

let serial = 0;

/** Prepares, starts the victim alone, asks, and when it is dead lets another worker end what it began. */
export async function killOnce(ground: Ground, scenario: Scenario, death: Death): Promise<Ended> {
  const number = serial++;
  const sweeps = Object.fromEntries(builtSweeps.map((kind) => [kind, { every: 86_400 }]));
  const world = await createWorld({
    kubeconfig: ground.kubeconfig,
    namespace: 'default',
    image: 'node:24',
    redis: ground.redis,
    config: { installation: `chaos-${number}`, sweeps },
  });
  // Loaded while the instance is prepared.
  const loading = standby(world.loaded, scenario.queues);
  const close = async () => {
    await (await loading.catch(() => undefined))?.end();
    await removeAll(world);
    await world.stop();
  };
  ground.open.add(close);
  try {
    const id = `${scenario.name} ${number}`;
    const before = await prepare(world, scenario, id);
    return await follow(ground, { world, id, scenario, before, victim: await loading, death });
  } catch (error) {
    return { point: undefined, error: textOf(error) };
  } finally {
    await close();
    ground.open.delete(close);
  }
}

async function prepare(world: World, scenario: Scenario, id: string) {
  if (scenario.prepare === undefined) return undefined;
  const worker = await world.worker();
  const before = await scenario.prepare(world, id);
  await worker.close();
  return before;
}

interface Following extends Omit<Run, 'made' | 'leftPod'> {
  readonly victim: Victim;
  readonly death: Death;
}

async function follow(ground: Ground, { victim, death, ...about }: Following): Promise<Ended> {
  const { world, id, scenario, before } = about;
  const made = await ground.watchCreates(world.operator.inventory.hashOf(id));
  await victim.start();
  await ('point' in death ? victim.at(death.point, scenario.act) : victim.hunts(death, scenario.act));
  await scenario.ask(world, id, before);
  const over = new AbortController();
  const exit = await Promise.race([victim.dead, idle(world, over.signal)]).finally(() => over.abort());
  await victim.end();
  const point = await pointOf(victim, death, exit, scenario.act);
  const [died, leftPod] = [await world.operator.inventory.read(id), await livePod(world, id)];
  const resumed = resumption(world, id, died?.fence);
  let error: unknown;
  const heir = await world.worker();
  await assertEnd({ ...about, leftPod, made }).catch(async (wrong) => {
    error = `${textOf(wrong)}\n${await story(world, id)}`;
  });
  const resumedMs = await resumed();
  await heir.close();
  return {
    point,
    ...(error === undefined ? {} : { error: textOf(error) }),
    ...(point === undefined || resumedMs === undefined || scenario.act !== 'kill' ? {} : { resumedMs }),
  };
}

/** Resolves once the victim has ended all its jobs, and none has come for a while. */
async function idle(world: World, signal: AbortSignal): Promise<undefined> {
  let calmSince: number | undefined;
  const calm = async () => {
    if ((await openJobs(world)) > 0) calmSince = undefined;
    else calmSince ??= Date.now();
    return calmSince !== undefined && Date.now() - calmSince > 2000;
  };
  const rests = await poll(async () => signal.aborted || (await calm()), { everyMs: 200, forMs: 300_000 });
  if (!rests) throw new Error('the victim lives, and never ends its jobs');
  return undefined;
}

/** Where it died by its own hand; undefined = it lived. `exit` is how it ended before it was ended. */
async function pointOf(
  victim: Victim,
  death: Death,
  exit: unknown[] | undefined,
  act: Scenario['act'],
): Promise<string | undefined> {
  const [code, by] = exit ?? [];
  if (exit !== undefined && (act === 'kill' ? by !== 'SIGKILL' : code !== 0))
    throw new Error(`the worker ended by itself: ${exit}\n${victim.log()}`);
  if (!('point' in death)) return readFile(join(death.folder, `${victim.process.pid}.point`), 'utf8').catch(() => undefined);
  if (exit === undefined) throw new Error(`it never came to ${death.point}`);
  return death.point;
}

/** What happened to the instance, one event a line: what a wrong end is explained by. */
async function story(world: World, id: string): Promise<string> {
  const events = await world.operator.inventory.events(id, 0, 500).catch(() => []);
  return events.map((event) => JSON.stringify(event)).join('\n');
}

const textOf = (error: unknown): string => (error instanceof Error ? (error.stack ?? error.message) : String(error));

/** Watches for the first write of the next holder until it is asked for the time that took; it waits for nothing more then. */
function resumption(world: World, id: string, fence: string | undefined): () => Promise<number | undefined> {
  const startedAt = Date.now();
  const asked = new AbortController();
  let seen: number | undefined;
  const another = async () => {
    if (asked.signal.aborted || fence === undefined) return true;
    if ((await world.operator.inventory.read(id))?.fence !== fence) seen = Date.now() - startedAt;
    return seen !== undefined;
  };
  const watching = poll(another, { everyMs: 50, forMs: 600_000 }).catch(() => false);
  return async () => {
    asked.abort();
    await watching;
    return seen;
  };
}

/** Pods that stay cost the runs that come the machine; claims go with them. */
async function removeAll(world: World): Promise<void> {
  for (const kind of ['pods', 'persistentvolumeclaims'] as const) {
    for await (const page of world.cluster.listMetadata(kind, `windlass.dev/installation=${world.loaded.config.installation}`))
      for (const { name = '', uid = '' } of page.items) await world.cluster.remove(kind, name, { uid, graceSeconds: 0 });
  }
}
