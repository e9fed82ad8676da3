import type { InstanceEvent } from '../inventory/types.ts';

/** How durations, ages and events are said to a person, on the command line and on the pages alike. */
export function durationWords(ms: number): string {
  if (ms < 1000) return `${Math.max(0, Math.round(ms))} ms`;
  if (ms < 60_000) return `${(ms / 1000).toFixed(1)} s`;
  return ageWords(ms);
}

export function ageWords(ms: number): string {
  const seconds = Math.max(0, Math.floor(ms / 1000));
  if (seconds < 60) return `${seconds}s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)}m${seconds % 60 ? `${seconds % 60}s` : ''}`;
  if (seconds < 86400) return `${Math.floor(seconds / 3600)}h${Math.floor((seconds % 3600) / 60)}m`;
  return `${Math.floor(seconds / 86400)}d${Math.floor((seconds % 86400) / 3600)}h`;
}

const text = (value: unknown): string => (typeof value === 'string' || typeof value === 'number' ? String(value) : '');

const sentences: Readonly<Record<string, (event: InstanceEvent) => string>> = {
  requested: () => 'requested',
  queued: () => 'queued',
  'stage.started': (event) => `${text(event.stage)} started`,
  'stage.progress': (event) => `${text(event.stage)}: ${text(event.checkpoint).replaceAll('_', ' ')}`,
  'stage.done': (event) => `${text(event.stage)} done in ${durationWords(Number(event.durationMs) || 0)}`,
  waiting: (event) => `${text(event.stage)} waits (${text(event.reason)})${event.message ? `: ${text(event.message)}` : ''}`,
  retrying: (event) => `tries again${event.code ? ` after ${text(event.code)}` : ''}`,
  ready: () => 'ready',
  failed: (event) => `failed${event.code ? ` (${text(event.code)})` : ''}${event.message ? `: ${text(event.message)}` : ''}`,
  lost: (event) => `lost${event.code ? ` (${text(event.code)})` : ''}${event.message ? `: ${text(event.message)}` : ''}`,
  reconnected: (event) => `reconnected; the Pod was ${text(event.how)}`,
  superseded: () => 'a newer request took over',
  rolling_back: (event) => `rolling back${event.code ? ` after ${text(event.code)}` : ''}`,
  rolled_back: () => 'rolled back',
  cleanup_pending: () => 'a removal failed; it is tried again',
  removing: () => 'being removed',
  gone: () => 'gone',
  gap: (event) => `events ${text(event.from)} to ${text(event.to)} were dropped`,
  'command.exited': (event) => `the command ended with ${text(event.exitCode)}`,
};

export const eventWords = (event: InstanceEvent): string =>
  (sentences[event.type] ?? (() => event.type.replaceAll('_', ' ')))(event);
