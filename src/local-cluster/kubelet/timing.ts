/** Waits, or returns early when the signal aborts; never rejects. */
export function pause(ms: number, signal?: AbortSignal): Promise<void> {
  if (signal?.aborted) return Promise.resolve();
  return new Promise((resolve) => {
    const finish = () => {
      clearTimeout(timer);
      signal?.removeEventListener('abort', finish);
      resolve();
    };
    const timer = setTimeout(finish, ms);
    signal?.addEventListener('abort', finish, { once: true });
  });
}

/** Settles when the signal aborts. */
export function untilAborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener('abort', () => resolve(), { once: true });
  });
}

/** Whether the promise settled within the time. */
export async function within(ms: number, promise: Promise<unknown>): Promise<boolean> {
  const timer = new AbortController();
  const settled = promise.then(
    () => true,
    () => true,
  );
  const result = await Promise.race([settled, pause(Math.max(0, ms), timer.signal).then(() => false)]);
  timer.abort();
  return result;
}

/** The kubelet's back-off: 10 s, doubled up to 300 s, forgotten after ten good minutes. */
export class BackOff {
  #next: number;

  /** `first` ms for the first time: 0 for restarts, which are immediate once. */
  constructor(first: number) {
    this.#next = first;
  }

  /** Milliseconds to wait now. */
  take(ranForMs = 0): number {
    if (ranForMs > 600_000) this.#next = 0;
    const wait = this.#next;
    this.#next = wait === 0 ? 10_000 : Math.min(wait * 2, 300_000);
    return wait;
  }
}

/** Runs at most so many at once, in the order they came. */
export function limit(most: number): <T>(run: () => Promise<T>) => Promise<T> {
  const waiting: (() => void)[] = [];
  let running = 0;
  return async (run) => {
    if (running >= most) await new Promise<void>((resolve) => waiting.push(resolve));
    else running += 1;
    try {
      return await run();
    } finally {
      const next = waiting.shift();
      if (next === undefined) running -= 1;
      else next();
    }
  };
}
