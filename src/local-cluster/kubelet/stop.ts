import type { V1Container } from '@kubernetes/client-node';
import { runHandler } from './handler.ts';
import type { ContainerSetup, PodIsolation } from './isolation.ts';
import type { Run } from './supervisor-client.ts';
import { pause, within } from './timing.ts';

export interface Stoppable {
  readonly run: Run;
  readonly isolation: PodIsolation;
  readonly setup: ContainerSetup;
  readonly container: V1Container;
}

/** How often a deadline is looked at again: a second delete may shorten it. */
const tickMs = 200;

/**
 * preStop, then the stop signal, then SIGKILL at the deadline (ms since the epoch). As for a PID 1, the stop signal reaches
 * only a process that handles it; the others live on until the deadline.
 */
export async function stopProcess(
  target: Stoppable,
  deadline: () => number,
  hookFailed: (trouble: string) => void,
): Promise<void> {
  const { run, container } = target;
  const preStop = container.lifecycle?.preStop;
  if (preStop?.sleep) await within(Math.min(preStop.sleep.seconds * 1000, deadline() - Date.now()), run.exit);
  else if (preStop) {
    const trouble = await runHandler(target, preStop, Math.max(1, deadline() - Date.now()));
    if (trouble !== undefined) hookFailed(trouble);
  }
  run.signal((container.lifecycle?.stopSignal as NodeJS.Signals | undefined) ?? 'SIGTERM', true);
  let over = false;
  const ended = run.exit.then(() => {
    over = true;
  });
  while (!over && Date.now() < deadline())
    await Promise.race([ended, pause(Math.min(tickMs, Math.max(1, deadline() - Date.now())))]);
  if (!over) run.signal('SIGKILL', false);
  await ended;
}
