/**
 * The types of client-node say Date where the API sends text. Answers are made true to their types here, in place, for
 * the kinds that we read; anything else keeps its text.
 */
type Bag = Record<string, unknown>;

function isBag(value: unknown): value is Bag {
  return typeof value === 'object' && value !== null && !Array.isArray(value);
}

function revive(bag: unknown, ...fields: string[]): void {
  if (!isBag(bag)) return;
  for (const field of fields) {
    const value = bag[field];
    if (typeof value !== 'string') continue;
    const date = new Date(value);
    if (!Number.isNaN(date.getTime())) bag[field] = date;
  }
}

function reviveStates(statuses: unknown): void {
  if (!Array.isArray(statuses)) return;
  for (const status of statuses as Bag[]) {
    for (const which of ['state', 'lastState']) {
      const state = status[which];
      if (!isBag(state)) continue;
      revive(state.running, 'startedAt');
      revive(state.terminated, 'startedAt', 'finishedAt');
    }
  }
}

export function reviveMeta<T>(meta: T): T {
  revive(meta, 'creationTimestamp', 'deletionTimestamp');
  return meta;
}

/** A Pod, claim, ConfigMap or Event as JSON.parse gave it, with its dates as Date. Returns the same object. */
export function reviveDates<T>(object: T): T {
  if (!isBag(object)) return object;
  reviveMeta(object.metadata);
  revive(object, 'firstTimestamp', 'lastTimestamp', 'eventTime');
  const status = object.status;
  if (isBag(status)) {
    revive(status, 'startTime');
    for (const condition of Array.isArray(status.conditions) ? status.conditions : [])
      revive(condition, 'lastProbeTime', 'lastTransitionTime');
    for (const list of ['containerStatuses', 'initContainerStatuses', 'ephemeralContainerStatuses']) reviveStates(status[list]);
  }
  return object;
}

/** Milliseconds of a time that may be a Date or, in an object that did not come through this adapter, its text. */
export function timeOf(value: Date | string | undefined | null): number | undefined {
  if (value === undefined || value === null) return undefined;
  const ms = value instanceof Date ? value.getTime() : Date.parse(value);
  return Number.isNaN(ms) ? undefined : ms;
}
