import { deepStrictEqual, equal, ok } from 'node:assert/strict';
import type { InstanceRecord } from '../../../src/inventory/types.ts';
import { launchAttempts } from '../../../src/jobs/catalog.ts';
import { claimName, podName } from '../../../src/names.ts';
import type { World } from '../world.ts';

/** What was there before the killed worker was asked: nothing, or a record to compare with. */
export type Before = InstanceRecord | undefined;

/** What a run ended in: an instance that works, or one of the ways in which nothing works any more. */
export type Ending = 'ready' | 'failed' | 'suspended' | 'gone';

/** One thing that a worker may be asked, and the only end that is right however often workers die over it. */
export interface Scenario {
  readonly name: string;
  /** SIGKILL, or a SIGTERM that it may obey in its own time. */
  readonly act: 'kill' | 'term';
  /** The queues of the killed worker; sweeps of the schedule would mix their effects in. */
  readonly queues: string;
  /** A live worker does this; nothing has to be there when undefined. */
  readonly prepare?: (world: World, id: string) => Promise<InstanceRecord>;
  ask(world: World, id: string, before: Before): Promise<void>;
  readonly ending: Ending;
  /** How many Pods and claims all workers together make for it once it was asked: the same ones are gone on with. */
  readonly makes: { readonly pods: number; readonly claims: number };
  /** What is right in this scenario only; `record` is the one at the end. */
  readonly check?: (record: Before, before: Before) => void;
}

const jobs = 'launch,teardown';
/** Each start of the prepare step leaves a line. */
export const prepareStep = { file: 'prepared', script: 'echo once >> prepared', leaves: 'once\n' };
export const secret = 's3cr3t';
const request = (id: string) => ({
  version: 1,
  instanceId: id,
  profile: 'node',
  secretEnv: { TOKEN: secret },
  prepare: prepareStep.script,
});

async function ready(world: World, id: string): Promise<InstanceRecord> {
  await world.operator.producer.launch(request(id));
  return world.ready(id, 300);
}

async function state(world: World, id: string, wanted: InstanceRecord['state']): Promise<InstanceRecord> {
  const record = await world.until(id, (current) => current?.state === wanted, 300);
  ok(record);
  return record;
}

const launch: Scenario = {
  name: 'launch',
  act: 'kill',
  queues: jobs,
  async ask(world, id) {
    await world.operator.producer.launch(request(id));
  },
  ending: 'ready',
  makes: { pods: 1, claims: 1 },
};

const teardown: Scenario = {
  name: 'teardown',
  act: 'kill',
  queues: jobs,
  prepare: ready,
  async ask(world, id) {
    await world.operator.producer.teardown({ version: 1, instanceId: id, cleanup: 'true' });
  },
  ending: 'gone',
  makes: { pods: 0, claims: 0 },
};

const rollback: Scenario = {
  name: 'rollback',
  act: 'kill',
  queues: jobs,
  async ask(world, id) {
    await world.operator.producer.launch({ ...request(id), prepare: 'exit 9' });
  },
  ending: 'failed',
  makes: { pods: 1, claims: 1 },
  check(record) {
    equal(record?.failure?.code, 'prepare_failed', `what started the rollback survives: ${JSON.stringify(record?.failure)}`);
  },
};

const keep: Scenario = {
  name: 'keepWorkspace',
  act: 'kill',
  queues: jobs,
  prepare: ready,
  async ask(world, id) {
    await world.operator.producer.teardown({ version: 1, instanceId: id, keepWorkspace: true });
  },
  ending: 'suspended',
  makes: { pods: 0, claims: 0 },
  check: sameClaim,
};

const relaunch: Scenario = {
  name: 'relaunch on a kept workspace',
  act: 'kill',
  queues: jobs,
  async prepare(world, id) {
    await ready(world, id);
    await world.operator.producer.teardown({ version: 1, instanceId: id, keepWorkspace: true });
    return state(world, id, 'suspended');
  },
  async ask(world, id) {
    await world.operator.producer.launch(request(id));
  },
  ending: 'ready',
  makes: { pods: 1, claims: 0 },
  check: sameClaim,
};

const reconnect: Scenario = {
  name: 'reconnect of a lost Pod',
  act: 'kill',
  queues: jobs,
  async prepare(world, id) {
    const { pod } = await ready(world, id);
    await world.cluster.remove('pods', pod?.name ?? '', { uid: pod?.uid ?? '', graceSeconds: 1 });
    return state(world, id, 'lost');
  },
  async ask(world, id) {
    await world.operator.producer.reconnect(id);
  },
  ending: 'ready',
  makes: { pods: 1, claims: 0 },
  check(record, before) {
    sameClaim(record, before);
    equal(record?.rebuilds, 1, 'one rebuild, however often it began');
  },
};

/** A claim that landed after its instance was gone: of a generation that its tombstone covers, so one pass is enough. */
const sweep: Scenario = {
  name: 'sweep',
  act: 'kill',
  queues: 'sweep',
  async prepare(world, id) {
    const record = await ready(world, id);
    const claim = await world.cluster.read('persistentvolumeclaims', claimName(record.hash));
    ok(claim?.metadata);
    await world.operator.producer.teardown({ version: 1, instanceId: id });
    await world.gone(id, 300);
    const { name = '', labels = {}, annotations = {} } = claim.metadata;
    const { accessModes = [], resources = {} } = claim.spec ?? {};
    const late = {
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: { name, labels, annotations },
      spec: { accessModes, resources },
    };
    await world.cluster.create('persistentvolumeclaims', late, {});
    deepStrictEqual(await world.leftovers(), [`persistentvolumeclaims/${name}`]);
    equal(await world.cluster.read('pods', podName(record.hash)), undefined);
    return record;
  },
  async ask(world) {
    await world.operator.producer.sweep({ version: 1, kinds: ['orphans'] });
  },
  ending: 'gone',
  makes: { pods: 0, claims: 0 },
};

/** A drain is no failure, and what it interrupts is not tried again: it goes on, or it goes on being undone (C18, C23). */
const stopped: readonly Scenario[] = [
  {
    ...launch,
    name: 'launch, told to stop',
    act: 'term',
    check: (record) => equal(record?.attemptsLeft, launchAttempts, 'being told to stop burns no attempt'),
  },
  { ...rollback, name: 'rollback, told to stop', act: 'term' },
];

function sameClaim(record: Before, before: Before): void {
  equal(record?.workspace?.claimUid, before?.workspace?.claimUid, 'the claim that it had');
}

export const scenarios: readonly Scenario[] = [launch, teardown, rollback, keep, relaunch, reconnect, sweep, ...stopped];
