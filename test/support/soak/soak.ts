import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { createWriteStream } from 'node:fs';
import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { poll, sleep } from '../../../src/clock.ts';
import { builtSweeps } from '../../../src/jobs/catalog.ts';
import type { AuditEntry } from '../../../src/local-cluster/audit.ts';
import { startCluster } from '../cluster.ts';
import { interrupted } from '../interrupt.ts';
import { percentiles } from '../percentiles.ts';
import { randomInt } from '../random.ts';
import { createWorld, type World } from '../world.ts';
import { faultRules, faultsMet, type Met, spared, writeFaults } from './api-faults.ts';
import { duplicatesOf } from './audit.ts';
import { persist, type Record as Seen } from './client.ts';
import { startFleet } from './fleet.ts';
import { type LastingRedis, startLastingRedis } from './lasting-redis.ts';
import { live } from './lives.ts';
import { watchObjects } from './objects.ts';
import { secretSearch } from './secrets.ts';
import { startTrouble, type Trouble } from './trouble.ts';

export interface SoakOptions {
  /** How many instances live; or, with `minutes`, as many as there is time for. */
  readonly launches: number;
  readonly minutes?: number;
  /** Draws what happens to whom; when it happens is up to the machine. */
  readonly seed: number;
  /** How many instances live at a time. */
  readonly concurrency: number;
  readonly workers: number;
  /** The share of API requests that meet a fault. */
  readonly faultRate: number;
  readonly troubleEverySeconds: number;
  /** Seconds in which a request has to come to its end. */
  readonly patience: number;
  readonly told: (line: string) => void;
  /** Ends it at once, and everything that it started. */
  readonly signal?: AbortSignal;
}

export interface SoakReport {
  readonly launches: number;
  readonly duplicates: readonly string[];
  readonly leaked: readonly string[];
  readonly lost: readonly string[];
  readonly secretsFound: readonly string[];
  /** Workers that ended without being told to, jobs that did not end, sweeps that did not report: any is a failure. */
  readonly unexpected: readonly string[];
  readonly recoveryMs: { readonly p50: number; readonly p99: number; readonly samples: number };
  /** How often each end, and each trouble, came. */
  readonly ends: Readonly<Record<string, number>>;
  readonly troubles: Readonly<Record<string, number>>;
  /** Of each kind of request that has faults: how many there were, and how many met one. */
  readonly faults: Readonly<Record<string, Met>>;
  readonly seconds: number;
}

/** Many lives under kills, pauses, restarts of Redis and faults of the API server; then the accounts are made. */
export async function soak(options: SoakOptions): Promise<SoakReport> {
  const startedAt = Date.now();
  const dir = await mkdtemp(join(tmpdir(), 'windlass-soak-'));
  const files = { faults: join(dir, 'faults.json'), audit: join(dir, 'audit.log'), workers: join(dir, 'workers.log') };
  await writeFaults(files.faults, []);
  const cluster = await startCluster({ faults: files.faults, auditLog: files.audit, historySize: 16_384 });
  const redis = await startLastingRedis();
  const log = createWriteStream(files.workers);
  const flushed = () => new Promise<void>((written) => void log.write('', () => written()));
  const world = await createWorld({ ...place(cluster.kubeconfig), redis: redis.redis, config, onLog: (text) => log.write(text) });
  try {
    const report = liveAll({ options, dir, files, redis, world, kubeconfig: cluster.kubeconfig, flushed });
    report.catch(() => undefined);
    return {
      ...(await Promise.race([report, interrupted(options.signal)])),
      seconds: Math.round((Date.now() - startedAt) / 1000),
    };
  } finally {
    await world.stop();
    await redis.stop();
    await cluster.close();
    log.end();
    await once(log, 'close');
    await rm(dir, { recursive: true, force: true });
  }
}

interface Started {
  readonly options: SoakOptions;
  readonly dir: string;
  readonly files: { readonly faults: string; readonly audit: string };
  readonly redis: LastingRedis;
  readonly world: World;
  readonly kubeconfig: string;
  /** Resolves when all that workers have logged is on disk. */
  readonly flushed: () => Promise<void>;
}

async function liveAll(started: Started): Promise<Omit<SoakReport, 'seconds'>> {
  const { options, dir, files, redis, world, kubeconfig, flushed } = started;
  const fleet = await startFleet(world, options.workers);
  const marker = `soak${randomBytes(10).toString('hex')}`;
  const search = secretSearch(marker);
  const objects = await watchObjects(kubeconfig, namespace, search);
  const random = randomInt(options.seed);
  const crowd = startCrowd(world, options, marker);
  const trouble = startTrouble({
    ...options,
    world,
    fleet,
    redis,
    random,
    everySeconds: options.troubleEverySeconds,
    living: crowd.living,
  });
  await writeFaults(files.faults, faultRules(options.faultRate, options.seed));
  await crowd.over;
  await trouble.stop();
  await writeFaults(files.faults, []);
  const unexpected = [...crowd.unexpected, ...fleet.unexpected, ...(await settle(world))];
  if ((await objects.stop()) === 0) unexpected.push('no Pod was ever looked at for secrets');
  const leaked = await leaks(world);
  await flushed();
  await search.lookInFolder('redis', redis.dir);
  await search.lookInFolder('logs', dir);
  const audit = (await readFile(files.audit, 'utf8'))
    .trim()
    .split('\n')
    .map((line) => JSON.parse(line) as AuditEntry);
  const faults = faultsMet(audit);
  unexpected.push(...spared(faults, options.faultRate));
  return {
    launches: crowd.launches(),
    duplicates: duplicatesOf(audit),
    leaked,
    lost: crowd.lost,
    secretsFound: search.found(),
    unexpected,
    recoveryMs: { ...percentiles(trouble.recoveryMs), samples: trouble.recoveryMs.length },
    ends: crowd.ends,
    troubles: troublesOf(trouble),
    faults,
  };
}

const namespace = 'default';
const place = (kubeconfig: string) => ({ kubeconfig, namespace, image: 'node:24' });
/** Sweeps come often and judge soon, so that they run into everything else. */
const config = {
  installation: 'soak',
  sweeps: Object.fromEntries(builtSweeps.map((kind) => [kind, { every: 20, graceSeconds: 10 }])),
};
const troublesOf = (trouble: Trouble) => ({ ...trouble.counts });

/** `concurrency` instances at a time, until as many have lived as were asked for, or the time is up. */
function startCrowd(world: World, options: SoakOptions, marker: string) {
  const lost: string[] = [];
  const unexpected: string[] = [];
  const ends: Record<string, number> = {};
  const living = new Set<string>();
  const until = options.minutes === undefined ? undefined : Date.now() + options.minutes * 60_000;
  let born = 0;
  const more = () => (until === undefined ? born < options.launches : Date.now() < until);
  const one = async () => {
    while (more()) {
      const number = born++;
      const id = `soak ${number}`;
      living.add(id);
      const about = {
        world,
        id,
        secret: `${marker}-${number}`,
        random: randomInt(options.seed * 100_003 + number),
        patience: options.patience,
      };
      const missing = (what: string, record: Seen) => lost.push(`${id}: ${what}: ${JSON.stringify(record)}`);
      const ended = (state: string) => {
        ends[state] = (ends[state] ?? 0) + 1;
      };
      await live({ ...about, lost: missing, ended }).catch((error) => unexpected.push(`${id}: ${error}`));
      living.delete(id);
      options.told(`${number + 1} lived`);
    }
  };
  const over = Promise.all(Array.from({ length: options.concurrency }, one));
  return { lost, unexpected, ends, over, living: () => [...living], launches: () => born };
}

/** Waits until no job of a request is left; says which stay. */
async function settle(world: World): Promise<string[]> {
  const queues = await world.operator.producer.queues();
  const open = async () => {
    const counts = await Promise.all(
      [queues.launch, queues.teardown].map((queue) =>
        persist(() => queue.getJobCountByTypes('waiting', 'active', 'delayed', 'prioritized')),
      ),
    );
    return counts.reduce((sum, count) => sum + count, 0);
  };
  const ended = await poll(async () => (await open()) === 0, { everyMs: 200, forMs: 90_000 });
  return ended ? [] : [`${await open()} jobs are still open`];
}

/** Two passes of every sweep; what is of ours then is a leak, as is a record that nobody asked to keep. */
async function leaks(world: World): Promise<string[]> {
  const { producer, inventory } = world.operator;
  for (let pass = 0; pass < 2; pass++) {
    const { jobId } = await persist(() => producer.sweep({ version: 1, kinds: ['all'] }));
    await persist(() => producer.sweepReports(jobId, 120_000));
    await sleep(100);
  }
  const { items } = await persist(() => inventory.list({ limit: 500 }));
  return [...(await world.leftovers()), ...items.map(({ instanceId, state }) => `record ${instanceId}: ${state}`)];
}
