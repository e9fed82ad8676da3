import { WindlassError } from '../../../src/errors.ts';
import type { World } from '../world.ts';
import { hasEnded, persist, type Record, settled } from './client.ts';

/** One instance from its first request to its last. */
export interface Life {
  readonly world: World;
  readonly id: string;
  /** Starts with the run's marker: it must be found nowhere. */
  readonly secret: string;
  readonly random: (below: number) => number;
  /** Seconds in which a request has to come to its end, faults or not. */
  readonly patience: number;
  /** A request that was accepted and did not end. */
  lost(what: string, record: Record): void;
  ended(state: string): void;
}

/** What people do with instances, and how often out of a hundred. */
const plots: readonly (readonly [number, (life: Life) => Promise<void>])[] = [
  [40, plain],
  [15, hasty],
  [10, failing],
  [10, kept],
  [10, burst],
  [15, repeated],
];

/** Lives one of the plots, and always leaves nothing: what is left afterwards is a leak. */
export async function live(life: Life): Promise<void> {
  let draw = life.random(100);
  const plot = plots.find(([share]) => {
    draw -= share;
    return draw < 0;
  })?.[1];
  await (plot ?? plain)(life);
  await remove(life);
}

const payload = ({ id, secret }: Life, more: object = {}) => ({
  version: 1,
  instanceId: id,
  profile: 'node',
  secretEnv: { TOKEN: secret },
  ...more,
});
const launch = (life: Life, more: object = {}) => persist(() => life.world.operator.producer.launch(payload(life, more)));

async function end(life: Life, what: string): Promise<Record> {
  const { record, late } = await settled(life.world, life.id, hasEnded, life.patience);
  if (late) life.lost(what, record);
  else life.ended(record === undefined ? 'absent' : (record.failure?.code ?? record.state));
  return record;
}

/** False when there is nothing (any more): a failed launch whose rollback failed is removed without being asked. */
async function ask(life: Life, keepWorkspace = false): Promise<boolean> {
  try {
    const { producer } = life.world.operator;
    await persist(() => producer.teardown({ version: 1, instanceId: life.id, ...(keepWorkspace ? { keepWorkspace } : {}) }));
    return true;
  } catch (error) {
    if (error instanceof WindlassError && (error.code === 'instance_gone' || error.code === 'instance_not_found')) return false;
    throw error;
  }
}

async function remove(life: Life): Promise<void> {
  if (!(await ask(life))) return;
  const { record, late } = await settled(life.world, life.id, (current) => current === undefined, life.patience);
  if (late) life.lost('teardown', record);
}

async function plain(life: Life): Promise<void> {
  await launch(life);
  await end(life, 'launch');
}

/** Torn down after so many of its events. */
async function hasty(life: Life): Promise<void> {
  const { inventory } = life.world.operator;
  await launch(life);
  const events = 1 + life.random(12);
  const far = async () => (await persist(() => inventory.events(life.id, 0, 500))).length >= events;
  while (!(await far()) && !hasEnded(await persist(() => inventory.read(life.id))))
    await persist(() => inventory.waitForEvent(life.id, events - 1, 1000));
}

/** Says its secret where everybody may read it, and fails. */
async function failing(life: Life): Promise<void> {
  await launch(life, { prepare: 'echo "token $TOKEN"; echo "$TOKEN" >&2; exit 9' });
  await end(life, 'failing launch');
}

async function kept(life: Life): Promise<void> {
  await launch(life);
  const record = await end(life, 'launch');
  if (record?.state !== 'ready' || !(await ask(life, true))) return;
  await end(life, 'teardown that keeps the workspace');
  await launch(life);
  await end(life, 'launch on a kept workspace');
}

async function burst(life: Life): Promise<void> {
  await launch(life);
  await ask(life);
  await launch(life);
  await end(life, 'launch behind a teardown');
}

/** Asked twice at once, and again when it is there. */
async function repeated(life: Life): Promise<void> {
  await Promise.all([launch(life), launch(life)]);
  const record = await end(life, 'launch asked twice');
  if (record?.state === 'ready') await launch(life);
}
