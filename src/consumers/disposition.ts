import { DelayedError, type Job, UnrecoverableError, WaitingError } from 'bullmq';
import { effect } from '../effects.ts';
import type { Inventory } from '../inventory/port.ts';
import type { Exit, WaitExit } from '../jobs/exit.ts';

/** A failure that BullMQ is to try again after exactly this long; read by the worker's backoff strategy. */
export class RetryLater extends Error {
  readonly retryAfterMs: number;
  constructor(message: string, retryAfterMs: number, cause: unknown) {
    super(message, { cause });
    this.retryAfterMs = retryAfterMs;
  }
}

/** How long a job handed back after a lost lease rests: whoever took it over is at work. */
const lostLeaseMs = 1000;

/**
 * The one switch from a handler's exit to a queue effect (design §6). Returns the job's result, or throws what BullMQ
 * understands. Only Error objects are thrown: anything else would leave the job active until it stalls (libraries §0.5).
 */
export async function settle(
  job: Job,
  token: string,
  exit: Exit,
  inventory: Inventory,
): Promise<Readonly<Record<string, unknown>>> {
  switch (exit.kind) {
    case 'done':
      return exit.result;
    case 'wait':
      return waitAsDelayed(job, token, exit, inventory);
    case 'failed': {
      const text = `${exit.error.code}: ${exit.error.message}`;
      if (exit.retryAfterMs === undefined) throw new UnrecoverableError(text);
      // A job of another client has as many attempts as that client gave it; ours are counted in the record.
      if (job.attemptsMade + 1 < (job.opts.attempts ?? 1)) throw new RetryLater(text, exit.retryAfterMs, exit.error);
      return delayAgain(job, token, exit.retryAfterMs);
    }
    case 'yielded':
      return handBack(job, token, exit);
  }
}

/**
 * The order was tried and matters: the waiter is registered already; move, then look again, then promote ourselves if
 * what we wait for came in between. After the DelayedError nothing is touched: another worker may have the job.
 */
async function waitAsDelayed(job: Job, token: string, exit: WaitExit, inventory: Inventory): Promise<never> {
  await effect('queue.delay', job.id, () => job.moveToDelayed(Date.now() + Math.max(1, Math.round(exit.delayMs)), token));
  if (await cameMeanwhile(exit, inventory)) await promoteFirst(job);
  throw new DelayedError();
}

async function cameMeanwhile(exit: WaitExit, inventory: Inventory): Promise<boolean> {
  const numbers = await inventory.wakeNumbers(exit.keys);
  if (exit.keys.some((key) => (numbers[key] ?? 0) !== (exit.ticket.numbers[key] ?? 0))) return true;
  return exit.ready();
}

/** To the front of the queue: a woken job must not stand behind the backlog (tried). Somebody else may have been quicker. */
export async function promoteFirst(job: Job): Promise<boolean> {
  try {
    await effect('queue.promote', job.id, async () => {
      await job.changePriority({ priority: 0 });
      await job.promote();
    });
    return true;
  } catch (error) {
    if ((await job.getState()) === 'delayed') throw error;
    return false;
  }
}

async function delayAgain(job: Job, token: string, delayMs: number): Promise<never> {
  await effect('queue.delay', job.id, () => job.moveToDelayed(Date.now() + delayMs, token));
  throw new DelayedError();
}

async function handBack(
  job: Job,
  token: string,
  exit: Extract<Exit, { kind: 'yielded' }>,
): Promise<Readonly<Record<string, unknown>>> {
  if (!exit.again) return { state: 'superseded' };
  if (exit.error.code === 'interrupted') {
    await effect('queue.wait', job.id, () => job.moveToWait(token));
    throw new WaitingError();
  }
  return delayAgain(job, token, lostLeaseMs);
}
