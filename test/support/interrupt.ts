import { constants } from 'node:os';

/** Aborted by the first SIGINT or SIGTERM: whoever runs closes what it opened, then calls `exit`. */
export function interruption(): { readonly signal: AbortSignal; exit(code: number): never } {
  const told = new AbortController();
  let by: 'SIGINT' | 'SIGTERM' | undefined;
  for (const name of ['SIGINT', 'SIGTERM'] as const) {
    // Again and again is still once: npm passes on what a terminal sends to all of its processes.
    process.on(name, () => {
      by ??= name;
      // What is under way breaks off as everything below it is closed.
      process.on('unhandledRejection', () => undefined);
      told.abort(new Error(`ended by ${by}`));
    });
  }
  return {
    signal: told.signal,
    exit: (code) => process.exit(by === undefined ? code : 128 + constants.signals[by]),
  };
}

/** Rejects with the signal's reason once it is aborted; never resolves. */
export function interrupted(signal: AbortSignal | undefined): Promise<never> {
  return new Promise((_, reject) => {
    if (signal?.aborted) reject(signal.reason);
    else signal?.addEventListener('abort', () => reject(signal.reason), { once: true });
  });
}
