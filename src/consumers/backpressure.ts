import { asWindlassError } from '../errors.ts';
import type { Inventory } from '../inventory/port.ts';
import type { Log } from '../jobs/context.ts';
import { pressureKey } from '../jobs/waiting.ts';

export interface Backpressure {
  /** Whether new launches have to wait: what was seen last, for as long as nothing else can be seen. */
  pressed(): boolean;
  /** Looks once; resolves with the verdict. */
  look(): Promise<boolean>;
  stop(): void;
}

/** Of Redis' maxmemory. Removals need room to free more, so launches stop well before it is full (design §7). */
const pressedAt = 0.85;
/** Lower, so that one freed instance does not let a crowd in that fills it again. */
const relievedAt = 0.8;
const everyMs = 5000;

/**
 * Tells when Redis is so full that no new launch may begin. A look that fails says nothing: the last verdict is held, since
 * a Redis that does not answer is no reason to let everybody in, nor to stop all work.
 */
export function startBackpressure(
  inventory: Pick<Inventory, 'facts' | 'wake'>,
  options: { readonly enabled: boolean; readonly log: Log },
): Backpressure {
  let pressed = false;
  const look = async () => {
    try {
      const { used, maxmemory } = await inventory.facts();
      const share = maxmemory === 0 ? 0 : used / maxmemory;
      const now = share >= (pressed ? relievedAt : pressedAt);
      if (now !== pressed) options.log.warn({ share }, now ? 'redis is nearly full: new launches wait' : 'new launches go on');
      const relieved = pressed && !now;
      pressed = now;
      if (relieved) await inventory.wake([pressureKey]);
    } catch (error) {
      options.log.warn({ code: asWindlassError(error).code, pressed }, 'pressure unknown: the last verdict is held');
    }
    return pressed;
  };
  const timer = options.enabled ? setInterval(() => void look(), everyMs) : undefined;
  timer?.unref();
  return { pressed: () => options.enabled && pressed, look, stop: () => clearInterval(timer) };
}
