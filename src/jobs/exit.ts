import type { WindlassError } from '../errors.ts';
import type { WaitTicket } from '../inventory/port.ts';

/** Come back when one of `keys` is woken, or after `delayMs`. The waiter is registered already; the lease is released. */
export interface WaitExit {
  readonly kind: 'wait';
  readonly reason: string;
  readonly delayMs: number;
  readonly keys: readonly string[];
  readonly ticket: WaitTicket;
  /** Asked once more after the job was moved: true = what was waited for is there already (a lost wake-up). */
  readonly ready: () => Promise<boolean>;
}

/** How a handler leaves a job. One consumer turns each into a queue effect (consumers/disposition.ts). */
export type Exit =
  | { readonly kind: 'done'; readonly result: Readonly<Record<string, unknown>> }
  | WaitExit
  /** `retryAfterMs` undefined = for good. */
  | { readonly kind: 'failed'; readonly error: WindlassError; readonly retryAfterMs: number | undefined }
  /** No further writes by us. `again` = hand the job back: somebody has to finish it. */
  | { readonly kind: 'yielded'; readonly error: WindlassError; readonly again: boolean };

/** Longest sleep of a waiting job: what a lost wake-up costs at most. */
export const longestWaitMs = 30_000;
