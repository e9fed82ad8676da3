import type { Config } from '../config/schema.ts';
import { effect } from '../effects.ts';
import { builtSweeps, payloadVersion } from '../jobs/catalog.ts';
import type { Queues } from './queue.ts';

const schedulerId = (kind: string) => `sweep-${kind}`;

/**
 * One job scheduler per kind of sweep, the same however many workers start however often (C75); those of kinds that are
 * gone are removed. Called at start and again every period, since FLUSHALL takes the schedulers with it.
 */
export async function upsertSchedules(queues: Queues, config: Config): Promise<void> {
  for (const kind of builtSweeps) {
    const settings = config.sweeps[kind];
    const repeat =
      settings.cron === undefined ? { every: Number(settings.every) * 1000 } : { pattern: settings.cron, tz: settings.tz };
    const template = { name: 'sweep', data: { version: payloadVersion, kinds: [kind] } };
    await effect('queue.schedule', kind, () => queues.sweep.upsertJobScheduler(schedulerId(kind), repeat, template));
  }
  const known = new Set<string>(builtSweeps.map(schedulerId));
  for (const key of await schedulerKeys(queues)) {
    if (!known.has(key)) await queues.sweep.removeJobScheduler(key);
  }
}

/** Straight from the index: BullMQ itself refuses to list schedulers beside what an older one left there (C77). */
async function schedulerKeys({ sweep }: Queues): Promise<string[]> {
  const found = await sweep.backend.getJobSchedulersRange(0, -1, true);
  // Keys and times alternate.
  return found.filter((_, at) => at % 2 === 0);
}
