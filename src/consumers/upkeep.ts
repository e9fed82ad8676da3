import { asWindlassError } from '../errors.ts';
import { reportAgentInUse } from '../jobs/agent-config.ts';
import { checkEpoch, type EpochVerdict, noteVerdict } from '../jobs/epoch.ts';
import type { Recipes } from '../jobs/recipes.ts';
import { type RecoverContext, recover } from '../jobs/recover.ts';
import { reportWorker } from '../jobs/worker-seen.ts';
import { offerOf, publishOffer } from '../producers/offer.ts';
import type { QueueName, Queues } from '../producers/queue.ts';
import { upsertSchedules } from '../producers/schedules.ts';

export interface Upkeep {
  /** The first round, which a worker waits for before it takes jobs. */
  readonly first: Promise<void>;
  stop(): Promise<void>;
}

export interface UpkeepOptions extends Omit<RecoverContext, 'signal'> {
  readonly queues: Queues;
  readonly recipes: Recipes;
  /** What this worker takes jobs from. */
  readonly takes: readonly QueueName[];
}

/** Short against how long a flushed Redis may go unnoticed, long against what a round costs. */
const roundMs = 30_000;

/** What every worker keeps true: the offer is published, the schedulers exist (FLUSHALL takes them), the epochs fit. */
export function startUpkeep(options: UpkeepOptions): Upkeep {
  const abort = new AbortController();
  let current = round(options, abort.signal);
  const first = current;
  const timer = setInterval(() => {
    current = current.then(() => round(options, abort.signal));
  }, roundMs);
  return {
    first,
    async stop() {
      clearInterval(timer);
      abort.abort();
      await current;
    },
  };
}

async function round(options: UpkeepOptions, signal: AbortSignal): Promise<void> {
  const { config, clusters, shelf, queues, log } = options;
  const attempt = async (what: string, work: () => Promise<void>) => {
    try {
      if (!signal.aborted) await work();
    } catch (error) {
      if (!signal.aborted)
        log.warn({ what, code: asWindlassError(error).code, err: error }, 'upkeep failed; tried again in the next round');
    }
  };
  await attempt('offer', () => publishOffer(shelf, offerOf(config, options.recipes)));
  await attempt('worker seen', () => reportWorker(shelf, options.takes));
  await attempt('agent in use', () => reportAgentInUse(shelf, config.installation));
  if (options.takes.includes('sweep')) await attempt('schedules', () => upsertSchedules(queues, config));
  const verdicts: EpochVerdict[] = [];
  for (const name of clusters.names()) {
    await attempt(`epoch of ${name}`, async () => {
      const within = AbortSignal.any([signal, AbortSignal.timeout(10_000)]);
      const verdict = await checkEpoch(clusters.get(name), shelf, config.installation, within);
      await noteVerdict(clusters.get(name), shelf, verdict);
      if (verdict !== 'ok')
        log.error({ cluster: name, verdict }, 'the inventory and the cluster do not belong together: nothing is deleted there');
      verdicts.push(verdict);
    });
  }
  if (!verdicts.includes('lost') || config.recovery.onLost !== 'rebuild') return;
  await attempt('recovery', async () => {
    const { items, ...counts } = await recover({ ...options, signal }, { dryRun: false });
    log.warn(
      { ...counts, failures: items.filter((item) => item.outcome === 'failed').slice(0, 20) },
      'the lost inventory was rebuilt from the clusters',
    );
  });
}
