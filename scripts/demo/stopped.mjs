import { readFileSync } from 'node:fs';

/**
 * Tells when the demo was asked to stop: by a signal, or because the npm that runs it was killed, which tells nobody.
 * `promise` never resolves: it rejects with the Stopped that says how. While `once()` waits, a stop resolves that instead.
 */
export function watchForStop() {
  let reject;
  let resolveOnce;
  let lastStop = Number.NEGATIVE_INFINITY;
  const promise = new Promise((_resolve, no) => {
    reject = no;
  });
  const stop = (by, exitCode) => {
    // A terminal sends Ctrl-C to us and to npm, which passes it on: the second within a second is the same.
    if (performance.now() - lastStop < 1000) return;
    lastStop = performance.now();
    if (resolveOnce === undefined) reject(new Stopped(by, exitCode));
    resolveOnce?.();
    resolveOnce = undefined;
  };
  process.on('SIGINT', () => stop('SIGINT', 130));
  process.on('SIGTERM', () => stop('SIGTERM', 143));
  process.on('SIGHUP', () => stop('SIGHUP', 129));
  if (process.env.npm_lifecycle_event !== undefined) watchParents(() => stop('the end of npm', 143));
  const once = () =>
    new Promise((resolve) => {
      resolveOnce = resolve;
    });
  return { promise, once };
}

export class Stopped extends Error {
  constructor(by, exitCode) {
    super(`stopped by ${by}`);
    this.exitCode = exitCode;
  }
}

function watchParents(gone) {
  const parents = ancestors().join();
  const timer = setInterval(() => {
    if (ancestors().join() === parents) return;
    clearInterval(timer);
    gone();
  }, 250);
  timer.unref();
}

/** Our parent, and the one above it: npm starts a script through a shell that may stay in between. */
function ancestors() {
  try {
    const stat = readFileSync(`/proc/${process.ppid}/stat`, 'utf8');
    return [process.ppid, Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[1])];
  } catch (error) {
    // No /proc here, or the parent ended this very moment.
    if (error.code === 'ENOENT' || error.code === 'ESRCH') return [process.ppid];
    throw error;
  }
}
