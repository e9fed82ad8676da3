import type { CoreV1Event } from '@kubernetes/client-node';
import { timeOf } from './dates.ts';

/** When an event was last seen, ms: the newer API fills eventTime and series, the older one lastTimestamp. */
export function eventTime(event: CoreV1Event): number {
  return (
    timeOf(event.series?.lastObservedTime) ??
    timeOf(event.lastTimestamp) ??
    timeOf(event.eventTime) ??
    timeOf(event.metadata.creationTimestamp) ??
    0
  );
}
