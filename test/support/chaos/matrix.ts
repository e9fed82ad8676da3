import { mkdir, mkdtemp, open, rm, stat } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { AuditEntry } from '../../../src/local-cluster/audit.ts';
import { startCluster } from '../cluster.ts';
import { interrupted } from '../interrupt.ts';
import { randomInt } from '../random.ts';
import { startRedis } from '../redis.ts';
import { createsOf, duplicatesOf } from '../soak/audit.ts';
import { type Ground, killOnce } from './run.ts';
import { type Scenario, scenarios } from './scenarios.ts';

export interface MatrixOptions {
  /** Kills under way at a time, each in an installation of its own. */
  readonly lanes: number;
  /** Only so many kills, at effects drawn by `seed`; until every effect was died at when undefined. */
  readonly share?: { readonly kills: number; readonly seed: number };
  /** Only scenarios whose name has this in it. */
  readonly only?: string;
  /** Only this effect: to see one kill again. */
  readonly point?: string;
  /** A kill that ended wrong is done once more, and told. */
  readonly tryAgain?: boolean;
  readonly signal?: AbortSignal;
  readonly told?: (result: KillResult) => void;
}

export interface KillResult {
  readonly scenario: string;
  /** `after kube.create.pods#1`; `none` when the worker lived, since others had died at all that it did. */
  readonly point: string;
  readonly outcome: 'passed' | 'failed';
  readonly error?: string;
  /** From the kill to the first write of the worker that took over, its own start included. */
  readonly resumedMs?: number;
  readonly durationMs: number;
  /** What was wrong at the first try. */
  readonly triedAgain?: string;
}

/** What no point is: a run in which the worker lived. */
export const undisturbed = 'none';

/** Timers and hints repeat these as often as time goes by; the first few stand for all. */
const repeated = / (redis\.renew#(?!1$)|(redis\.(claim-waiters|wake|begin|shelf)|queue\.(delay|promote))#(?![1-3]$))/;

/** Of a worker that is told to stop, half of the points will do: it goes on from after one effect to before the next. */
const leftAlone = ({ act }: Scenario) => (act === 'kill' ? repeated : new RegExp(`^after |${repeated.source}`));

/** More than any scenario has: a matrix that finds new effects for ever is broken. */
const mostPoints = 400;

/**
 * Kills a worker at every effect of every scenario and says how each ended. Nobody lists the effects: each worker dies at
 * the first one that none of its scenario died at, and a scenario is done when one lived, having met nothing new. So there
 * is no effect that was found and not died at.
 */
export async function crashMatrix(options: MatrixOptions): Promise<KillResult[]> {
  const dir = await mkdtemp(join(tmpdir(), 'windlass-chaos-'));
  const audit = join(dir, 'audit.log');
  const cluster = await startCluster({ auditLog: audit, historySize: 16_384 });
  const redis = await startRedis();
  const running: Ground['open'] = new Set();
  const ground: Ground = {
    kubeconfig: cluster.kubeconfig,
    redis,
    open: running,
    watchCreates: (hash) => watchCreates(audit, hash),
  };
  try {
    const known = scenarios.filter(({ name }) => name.includes(options.only ?? ''));
    const hunts = await Promise.all(known.map((scenario, at) => openHunt(scenario, join(dir, String(at)))));
    const all = options.share === undefined ? huntAll(ground, hunts, options) : huntShare(ground, hunts, options, options.share);
    all.catch(() => undefined);
    const results = await Promise.race([all, interrupted(options.signal)]);
    return [...results, ...duplicatesOf(await entriesOf(audit, 0)).map(duplicate)];
  } finally {
    for (const close of running) await close().catch(() => undefined);
    await cluster.close();
    await redis.stop();
    await rm(dir, { recursive: true, force: true });
  }
}

/** One scenario and the points that somebody died at. */
interface HuntState {
  readonly scenario: Scenario;
  readonly folder: string;
  running: number;
  met: number;
  done: boolean;
}

async function openHunt(scenario: Scenario, folder: string): Promise<HuntState> {
  await mkdir(folder);
  return { scenario, folder, running: 0, met: 0, done: false };
}

async function huntAll(ground: Ground, hunts: readonly HuntState[], options: MatrixOptions): Promise<KillResult[]> {
  const results: KillResult[] = [];
  const lane = async () => {
    for (;;) {
      // The one with the fewest beside it: workers that find out that nothing is new come late and few.
      const next = hunts.filter((hunt) => !hunt.done).sort((a, b) => a.running - b.running)[0];
      if (next === undefined || options.signal?.aborted) return;
      const result = await hunt(ground, next, options);
      results.push(result);
      options.told?.(result);
    }
  };
  await Promise.all(Array.from({ length: options.lanes }, lane));
  return results.sort((a, b) => (`${a.scenario} ${a.point}` < `${b.scenario} ${b.point}` ? -1 : 1));
}

async function huntShare(
  ground: Ground,
  hunts: readonly HuntState[],
  options: MatrixOptions,
  share: NonNullable<MatrixOptions['share']>,
): Promise<KillResult[]> {
  const random = randomInt(share.seed);
  // Every scenario has more effects than this.
  const draws = Array.from({ length: share.kills }, () => ({ hunt: hunts[random(hunts.length)] as HuntState, skip: random(20) }));
  const results: KillResult[] = [];
  const lane = async () => {
    for (let draw = draws.shift(); draw !== undefined; draw = draws.shift())
      results.push(await hunt(ground, draw.hunt, options, draw.skip));
  };
  await Promise.all(Array.from({ length: options.lanes }, lane));
  return results;
}

/** One kill, or the proof that there is none left. */
async function hunt(ground: Ground, state: HuntState, options: MatrixOptions, skip = 0): Promise<KillResult> {
  const { scenario, folder } = state;
  const startedAt = Date.now();
  state.running += 1;
  try {
    const { point } = options;
    const death = point === undefined ? { folder, repeats: leftAlone(scenario), skip } : { point };
    const first = await killOnce(ground, scenario, death);
    const again = first.error !== undefined && options.tryAgain === true && !options.signal?.aborted;
    // What died at a point dies there again; what did not begin, or ended wrong undisturbed, begins anew.
    const ended = again ? await killOnce(ground, scenario, first.point === undefined ? death : { point: first.point }) : first;
    state.met += 1;
    state.done ||= ended.point === undefined || point !== undefined || state.met > mostPoints;
    const error = state.met > mostPoints ? `${scenario.name} has new effects for ever` : ended.error;
    return {
      scenario: scenario.name,
      point: ended.point ?? undisturbed,
      outcome: error === undefined ? 'passed' : 'failed',
      durationMs: Date.now() - startedAt,
      ...(error === undefined ? {} : { error }),
      ...(ended.resumedMs === undefined ? {} : { resumedMs: ended.resumedMs }),
      ...(again ? { triedAgain: first.error } : {}),
    };
  } finally {
    state.running -= 1;
  }
}

const duplicate = (found: string): KillResult => ({
  scenario: 'all',
  point: undisturbed,
  outcome: 'failed',
  error: `two objects of one kind at a time: ${found}`,
  durationMs: 0,
});

async function watchCreates(audit: string, hash: string) {
  const { size } = await stat(audit);
  return async () => {
    const entries = await entriesOf(audit, size);
    return { pods: createsOf(entries, 'pods', hash), claims: createsOf(entries, 'persistentvolumeclaims', hash) };
  };
}

/** What the API server logged after so many bytes. */
async function entriesOf(audit: string, from: number): Promise<AuditEntry[]> {
  const file = await open(audit);
  try {
    const { size } = await file.stat();
    const { buffer } = await file.read(Buffer.alloc(size - from), 0, size - from, from);
    // The last line may be half written.
    const lines = buffer.toString('utf8').split('\n').slice(0, -1);
    return lines.filter((line) => line.startsWith('{')).map((line) => JSON.parse(line) as AuditEntry);
  } finally {
    await file.close();
  }
}
