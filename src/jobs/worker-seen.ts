import type { JobRef } from '../inventory/port.ts';
import type { Shelf } from '../inventory/shelf.ts';

/** A few upkeep rounds: a worker that says nothing for so long is not there. */
const seenSeconds = 120;
const seenName = (queue: JobRef['queue']): string => `worker-seen:${queue}`;

/** Tells callers that somebody takes jobs from these queues; repeated in every upkeep round. */
export async function reportWorker(shelf: Shelf, queues: readonly JobRef['queue'][]): Promise<void> {
  await Promise.all(queues.map((queue) => shelf.put(seenName(queue), true, seenSeconds)));
}

/** False = no worker has taken jobs from this queue for two minutes: what is asked for waits until one is started. */
export const isWorkerSeen = async (shelf: Shelf, queue: JobRef['queue']): Promise<boolean> =>
  (await shelf.get(seenName(queue))) !== undefined;
