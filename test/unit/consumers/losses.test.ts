import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import type * as Clock from '../../../src/clock.ts';
import { type LossWatch, startLossWatch } from '../../../src/consumers/losses.ts';
import { instanceHash, podName } from '../../../src/names.ts';

/** Ends the pause between two looks for what was overlooked. */
let round: (() => void) | undefined;
vi.mock('../../../src/clock.ts', async (original) => ({
  ...(await original<typeof Clock>()),
  sleep: (_ms: number, signal: AbortSignal) =>
    new Promise<void>((resolve, reject) => {
      round = resolve;
      signal.addEventListener('abort', () => reject(signal.reason));
    }),
}));

const hash = instanceHash('test', 'a');
const pod = { name: podName(hash), uid: 'u' };
const stages = [{ name: 'ready', state: 'done' }];
const lost = {
  hash,
  instanceId: 'a',
  cluster: 'near',
  namespace: 'ns',
  state: 'lost',
  intent: 'present',
  generation: 100,
  pod,
  stages,
};
const request = { payload: { version: 1, instanceId: 'a' }, requestHash: 'h' };

let record: object;
let reads: number;
let asked: unknown[];
let away: readonly string[];
let change: (event: { name: string; pod: undefined }) => void;
let watch: LossWatch;

const clusterOf = (name: string) => ({
  name,
  namespace: 'ns',
  pods: {
    onChange: (listener: typeof change) => {
      if (name === 'near') change = listener;
      return () => undefined;
    },
    ready: async () => undefined,
    get: () => undefined,
    eventsOf: () => [],
  },
  read: async () => {
    if (away.includes(name)) throw new Error(`${name} does not answer`);
    return { data: { epoch: 'e', seq: '0' } };
  },
});

beforeEach(() => {
  [record, reads, asked, away] = [{ ...lost, request }, 0, [], []];
});
afterEach(async () => {
  await watch.stop();
  vi.useRealTimers();
});

function start(more: object = {}) {
  const clusters = { far: clusterOf('far'), near: clusterOf('near') };
  const other = { ...lost, cluster: 'far', hash: instanceHash('test', 'b') };
  const inventory = {
    listFields: async (_fields: unknown, { states }: { states: string[] }) => ({
      items: states.includes('ready') ? [] : [other, record],
      nextCursor: null,
    }),
    readByHash: async (of: string) => {
      if (of !== hash) return undefined;
      reads += 1;
      return record;
    },
    intendAgain: async (intent: unknown) => {
      asked.push(intent);
      return { kind: 'overtaken' };
    },
    ...more,
  };
  watch = startLossWatch({
    config: { installation: 'test', recovery: { onLost: 'rebuild' } },
    inventory,
    shelf: { get: async () => ({ epoch: 'e', seq: 0 }) },
    clusters: { names: () => Object.keys(clusters), get: (name: keyof typeof clusters) => clusters[name] },
    queues: {},
    log: { warn: () => undefined, error: () => undefined },
  } as never);
}

/** Lets everything happen that waits for no timer. */
const settle = async () => {
  for (let turn = 0; turn < 50; turn += 1) await new Promise(process.nextTick);
};

it.each([
  ['present', [expect.objectContaining({ reconnect: true, seen: 100 })]],
  ['absent', []],
  ['suspended', []],
])('what is lost and wanted %s: a removal that has not begun yet is not undone by a rebuild', async (intent, intents) => {
  record = { ...record, intent };
  start();
  change({ name: pod.name, pod: undefined });
  await settle();
  round?.();
  await settle();
  expect(asked.slice(0, 1)).toEqual(intents);
  expect(reads).toBeGreaterThan(0);
});

it('a loss on one cluster is found though another cluster, asked before it, does not answer', async () => {
  away = ['far'];
  start();
  await settle();
  expect(asked).toEqual([]);
  round?.();
  await settle();
  expect(asked).toHaveLength(1);
});

it('a look that fails is followed by one other, however often it was asked for meanwhile', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  const readByHash = async () => {
    reads += 1;
    throw new Error('Redis is away');
  };
  start({ readByHash, listFields: async () => ({ items: [record], nextCursor: null }) });
  await settle();
  for (let event = 0; event < 5; event += 1) {
    change({ name: pod.name, pod: undefined });
    await settle();
  }
  expect(reads).toBeGreaterThan(4);
  expect(vi.getTimerCount()).toBe(1);
  const before = reads;
  for (let rounds = 0; rounds < 5; rounds += 1) {
    round?.();
    await settle();
  }
  // The round does not come before the look that is due, and adds none.
  expect([reads, vi.getTimerCount()]).toEqual([before, 1]);
  await vi.advanceTimersByTimeAsync(10_000);
  expect(reads).toBeGreaterThan(before);
  expect(vi.getTimerCount()).toBe(1);
});
