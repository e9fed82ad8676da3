import { Redis } from 'ioredis';
import { afterAll, afterEach, beforeAll, beforeEach } from 'vitest';
import { redisSchema } from '../../src/config/schema.ts';
import { createInventory, type InventoryOptions } from '../../src/inventory/inventory.ts';
import type {
  BeginAnswer,
  BeginOptions,
  Inventory,
  LaunchAnswer,
  LaunchIntent,
  RemovalAnswer,
} from '../../src/inventory/port.ts';
import { startRedis, type TestRedis } from '../support/redis.ts';

export const tag = '{windlass:test:inventory}';
const retention = { failedSeconds: 86400, tombstoneSeconds: 3600, finishedSeconds: 14400, eventsPerInstance: 500 };

export interface World {
  readonly redis: TestRedis;
  /** A connection of the test's own, to look at the world and to break it. */
  readonly raw: Redis;
  /** Another worker on the same Redis. */
  open(options?: Partial<InventoryOptions>): Promise<Inventory>;
  readonly inventory: Inventory;
}

/** One redis-server for the file, emptied before each test; inventories are closed after each. */
export function useWorld(): World {
  let redis: TestRedis;
  let raw: Redis;
  let inventory: Inventory;
  let opened: Inventory[] = [];
  const open = async (options: Partial<InventoryOptions> = {}) => {
    const made = await openInventory({ redis: redisSchema.parse({ url: redis.url }), ...options });
    opened.push(made);
    return made;
  };
  beforeAll(async () => {
    redis = await startRedis();
    raw = new Redis(redis.url);
  });
  beforeEach(async () => {
    await raw.flushall();
    inventory = await open();
  });
  afterEach(async () => {
    await Promise.all(opened.map((made) => made.close()));
    opened = [];
  });
  afterAll(async () => {
    raw.disconnect();
    await redis.stop();
  });
  return {
    open,
    get redis() {
      return redis;
    },
    get raw() {
      return raw;
    },
    get inventory() {
      return inventory;
    },
  };
}

export const openInventory = (options: Partial<InventoryOptions> & Pick<InventoryOptions, 'redis'>): Promise<Inventory> =>
  createInventory({
    installation: 'test',
    retention,
    env: () => undefined,
    dir: '/',
    holder: 'worker-1',
    log: { debug: () => {}, warn: () => {} },
    ...options,
  });

export const launchOf = (instanceId: string, more: Partial<LaunchIntent> = {}): LaunchIntent => ({
  instanceId,
  owner: 'ann',
  payload: { version: 1, profile: 'node' },
  requestHash: 'h1',
  cluster: 'default',
  profile: 'node',
  app: '',
  sealedEnv: '',
  deadlineSeconds: 600,
  attempts: 3,
  lifetime: { maxSeconds: 60 },
  limits: { cpu: '1' },
  ...more,
});

type Accepted = Extract<LaunchAnswer, { job: unknown }>;

export async function intend(inventory: Inventory, instanceId: string, more: Partial<LaunchIntent> = {}): Promise<Accepted> {
  const answer = await inventory.intendLaunch(launchOf(instanceId, more));
  if (!('job' in answer)) throw new Error(`not accepted: ${answer.kind}`);
  return answer;
}

export async function remove(
  inventory: Inventory,
  instanceId: string,
  intent: 'absent' | 'suspended' = 'absent',
): Promise<Extract<RemovalAnswer, { job: unknown }>> {
  const answer = await inventory.intendRemoval({ instanceId, intent, payload: { version: 1, instanceId } });
  if (!('job' in answer)) throw new Error(`not accepted: ${answer.kind}`);
  return answer;
}

export type Begun = Extract<BeginAnswer, { kind: 'ok' }>;

export async function begin(
  inventory: Inventory,
  instanceId: string,
  of: { generation: number; run: number },
  more: Partial<BeginOptions> = {},
): Promise<Begun> {
  const answer = await inventory.begin(instanceId, { verb: 'launch', generation: of.generation, run: of.run, ...more });
  if (answer.kind !== 'ok') throw new Error(`not begun: ${JSON.stringify(answer)}`);
  return answer;
}

/** A launched, ready instance whose lease is free. */
export async function ready(inventory: Inventory, instanceId: string, more: Partial<LaunchIntent> = {}): Promise<Accepted> {
  const accepted = await intend(inventory, instanceId, more);
  const { lease } = await begin(inventory, instanceId, accepted);
  await inventory.write(lease, { state: 'ready', events: [{ type: 'ready' }], release: true });
  return accepted;
}

/** Takes a removal to its end. */
export async function tearDown(inventory: Inventory, instanceId: string): Promise<string> {
  const removal = await remove(inventory, instanceId);
  const { lease } = await begin(inventory, instanceId, removal, { verb: 'teardown' });
  return inventory.finishRemoval(lease, { generation: removal.generation, suspended: false });
}

/** The code that a promise was refused with. */
export async function refusal(promise: Promise<unknown>): Promise<string> {
  try {
    await promise;
  } catch (error) {
    return String((error as { code?: unknown }).code);
  }
  return 'not refused';
}

/** Asks until it holds; fails after ten seconds. */
export async function until(holds: () => boolean | Promise<boolean>): Promise<void> {
  const end = performance.now() + 10_000;
  while (!(await holds())) {
    if (performance.now() > end) throw new Error('it did not come true within 10 s');
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}
