/** Turns the first Ctrl-C (or SIGTERM) into an abort; a second one ends the process at once, whatever hangs. */
export function interruptible(): { readonly signal: AbortSignal; readonly interrupted: Promise<void>; dispose(): void } {
  const controller = new AbortController();
  const stop = () => {
    if (controller.signal.aborted) process.exit(130);
    controller.abort(new DOMException('interrupted', 'AbortError'));
  };
  process.on('SIGINT', stop);
  process.on('SIGTERM', stop);
  const interrupted = new Promise<void>((resolve) =>
    controller.signal.addEventListener('abort', () => resolve(), { once: true }),
  );
  return {
    signal: controller.signal,
    interrupted,
    dispose: () => {
      process.off('SIGINT', stop);
      process.off('SIGTERM', stop);
    },
  };
}
