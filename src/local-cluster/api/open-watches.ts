import type { Faults } from '../faults.ts';
import type { FaultPlan } from './fault-plan.ts';
import { planFor } from './gate.ts';
import type { Route } from './route.ts';
import type { WatchControl } from './watch.ts';

export interface OpenWatches {
  add(control: WatchControl, route: Route, plan: FaultPlan): void;
  remove(control: WatchControl): void;
  close(): void;
}

function apply(control: WatchControl, { flags }: FaultPlan): void {
  if (flags.has('watch_silence')) control.silence();
  if (flags.has('watch_gone')) control.gone();
  if (flags.has('watch_close')) control.close();
}

/** Watches outlive the request that opened them: a changed faults file acts on them, too. */
export function createOpenWatches(faults: Faults): OpenWatches {
  const watches = new Map<WatchControl, Route>();
  const forget = faults.onChange(() => {
    for (const [control, route] of watches) apply(control, planFor(faults, route));
  });
  return {
    add(control, route, plan) {
      watches.set(control, route);
      apply(control, plan);
    },
    remove: (control) => void watches.delete(control),
    close: forget,
  };
}
