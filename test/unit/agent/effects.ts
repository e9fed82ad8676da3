import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import type { EffectMessage } from '../../../src/effects.ts';

/** The side effects that were published while `run` ran. */
export async function effectNames(run: () => Promise<unknown>): Promise<string[]> {
  const names: string[] = [];
  const listener = (message: unknown) => {
    const { phase, name, instance } = message as EffectMessage;
    names.push(`${phase} ${name} ${instance}`);
  };
  subscribe('windlass:effect', listener);
  try {
    await run();
  } finally {
    unsubscribe('windlass:effect', listener);
  }
  return names;
}
