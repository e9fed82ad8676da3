import { setTimeout as delay } from 'node:timers/promises';

/** Monotonic milliseconds: for deadlines and durations; never for a time of day. */
export const monotonicMs = (): number => performance.now();

/** Rejects with the signal's reason when it is aborted meanwhile. */
export async function sleep(ms: number, signal?: AbortSignal): Promise<void> {
  try {
    await delay(ms, undefined, signal ? { signal } : {});
  } catch (error) {
    throw signal?.aborted ? signal.reason : error;
  }
}

/** Asks until it is true (answers true) or the time is up (false). */
export async function poll(
  ask: () => Promise<boolean>,
  options: { readonly everyMs: number; readonly forMs: number; readonly signal?: AbortSignal },
): Promise<boolean> {
  const until = monotonicMs() + options.forMs;
  for (;;) {
    if (await ask()) return true;
    if (monotonicMs() + options.everyMs > until) return false;
    await sleep(options.everyMs, options.signal);
  }
}

/** The promise's value, or undefined when it takes longer: for shutdowns that must not hang on a dead Redis. */
export async function within<T>(promise: Promise<T>, ms: number): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(() => resolve(undefined), ms);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    clearTimeout(timer);
  }
}
