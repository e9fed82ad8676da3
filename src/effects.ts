import { channel } from 'node:diagnostics_channel';

/** One side effect, about to happen or done: what crash tests and tracing hang on (design §3). */
export interface EffectMessage {
  readonly phase: 'before' | 'after';
  /** `redis.<script>`, `kube.<verb>.<resource>`, `kube.exec`, `agent.<call>`, `queue.<move>`. */
  readonly name: string;
  readonly instance: string | undefined;
  readonly failed?: boolean;
}

const effects = channel('windlass:effect');

/**
 * Runs one side effect and publishes it before and after. Every adapter call that changes the world outside this
 * process goes through here: a crash test kills the process in a subscriber, so a call that bypasses it is untested.
 */
export async function effect<T>(name: string, instance: string | undefined, run: () => Promise<T>): Promise<T> {
  if (!effects.hasSubscribers) return run();
  effects.publish({ phase: 'before', name, instance } satisfies EffectMessage);
  try {
    const value = await run();
    effects.publish({ phase: 'after', name, instance } satisfies EffectMessage);
    return value;
  } catch (error) {
    effects.publish({ phase: 'after', name, instance, failed: true } satisfies EffectMessage);
    throw error;
  }
}
