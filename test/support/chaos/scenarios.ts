import { deepStrictEqual, equal, ok } from 'node:assert/strict';
import type { InstanceRecord } from '../../../src/inventory/types.ts';
import { claimName, podName } from '../../../src/names.ts';
import type { World } from '../world.ts';

/** What was there before the killed worker was asked: nothing, or a record to compare with. */
export type Before = InstanceRecord | undefined;

/** One thing that a worker may be asked, and the only end that is right however often workers die over it. */
export interface Scenario {
  readonly name: string;
  /** The queues of the killed worker; sweeps of the schedule would mix their effects in. */
  readonly queues: string;
  /** A live worker does this. */
  prepare(world: World, id: string): Promise<Before>;
  ask(world: World, id: string, before: Before): Promise<void>;
  /** Waits for the end and throws unless it is right. `died` is the record as the killed worker left it. */
  end(world: World, id: string, before: Before, died: Before): Promise<void>;
}

const jobs = 'launch,teardown';
const request = (id: string) => ({ version: 1, instanceId: id, profile: 'node', secretEnv: { TOKEN: 's3cr3t' } });
const nothing = async () => undefined;

async function ready(world: World, id: string): Promise<InstanceRecord> {
  await world.operator.producer.launch(request(id));
  return world.ready(id);
}

/** Ready, with the one Pod and the one claim that the record names. */
async function assertOne(world: World, id: string, died: Before): Promise<InstanceRecord> {
  const record = await world.ready(id);
  const pod = await world.cluster.read('pods', podName(record.hash));
  const claim = await world.cluster.read('persistentvolumeclaims', claimName(record.hash));
  equal(pod?.metadata?.uid, record.pod?.uid, 'the Pod is the recorded one');
  equal(claim?.metadata?.uid, record.workspace?.claimUid, 'the claim is the recorded one');
  if (died?.pod) equal(record.pod?.uid, died.pod.uid, 'the same Pod as the killed worker made');
  deepStrictEqual((await world.leftovers()).length, 2, 'one Pod and one claim');
  equal((await world.exec(id, ['printenv', 'TOKEN'])).stdout, 's3cr3t\n', 'the instance works');
  return record;
}

async function assertAbsent(world: World, id: string): Promise<void> {
  await world.gone(id);
  deepStrictEqual(await world.leftovers(), []);
}

const launch: Scenario = {
  name: 'launch',
  queues: jobs,
  prepare: nothing,
  async ask(world, id) {
    await world.operator.producer.launch(request(id));
  },
  async end(world, id, _before, died) {
    await assertOne(world, id, died);
  },
};

const teardown: Scenario = {
  name: 'teardown',
  queues: jobs,
  prepare: ready,
  async ask(world, id) {
    await world.operator.producer.teardown({ version: 1, instanceId: id, cleanup: 'true' });
  },
  end: assertAbsent,
};

const rollback: Scenario = {
  name: 'rollback',
  queues: jobs,
  prepare: nothing,
  async ask(world, id) {
    await world.operator.producer.launch({ ...request(id), prepare: 'exit 9' });
  },
  async end(world, id) {
    const record = await world.until(id, (current) => current?.state === 'failed');
    equal(
      record?.failure?.code,
      'prepare_failed',
      `the failure that started the rollback survives: ${JSON.stringify(record?.failure)}`,
    );
    deepStrictEqual(await world.leftovers(), []);
  },
};

const keep: Scenario = {
  name: 'keepWorkspace',
  queues: jobs,
  prepare: ready,
  async ask(world, id) {
    await world.operator.producer.teardown({ version: 1, instanceId: id, keepWorkspace: true });
  },
  async end(world, id, before) {
    const record = await world.until(id, (current) => current?.state === 'suspended');
    equal(record?.workspace?.claimUid, before?.workspace?.claimUid);
    deepStrictEqual(await world.leftovers(), [`persistentvolumeclaims/${before?.workspace?.claimName}`]);
    const claim = await world.cluster.read('persistentvolumeclaims', before?.workspace?.claimName ?? '');
    equal(claim?.metadata?.annotations?.['windlass.dev/retained'], 'true');
  },
};

const relaunch: Scenario = {
  name: 'relaunch on a kept workspace',
  queues: jobs,
  async prepare(world, id) {
    await ready(world, id);
    await world.operator.producer.teardown({ version: 1, instanceId: id, keepWorkspace: true });
    return world.until(id, (current) => current?.state === 'suspended');
  },
  async ask(world, id) {
    await world.operator.producer.launch(request(id));
  },
  async end(world, id, before, died) {
    const record = await assertOne(world, id, died);
    equal(record.workspace?.claimUid, before?.workspace?.claimUid, 'the kept claim');
  },
};

const reconnect: Scenario = {
  name: 'reconnect of a lost Pod',
  queues: jobs,
  async prepare(world, id) {
    const { pod } = await ready(world, id);
    await world.cluster.remove('pods', pod?.name ?? '', { uid: pod?.uid ?? '', graceSeconds: 1 });
    return world.until(id, (current) => current?.state === 'lost');
  },
  async ask(world, id) {
    await world.operator.producer.reconnect(id);
  },
  async end(world, id, before, died) {
    const rebuilt = died?.pod?.uid !== before?.pod?.uid;
    const record = await assertOne(world, id, rebuilt ? died : undefined);
    equal(record.workspace?.claimUid, before?.workspace?.claimUid, 'the claim that it had');
    equal(record.rebuilds, 1, 'one rebuild, however often it began');
  },
};

/** A claim that landed after its instance was gone: of a generation that its tombstone covers, so one pass is enough. */
const sweep: Scenario = {
  name: 'sweep',
  queues: 'sweep',
  async prepare(world, id) {
    const record = await ready(world, id);
    const claim = await world.cluster.read('persistentvolumeclaims', claimName(record.hash));
    ok(claim?.metadata);
    await world.operator.producer.teardown({ version: 1, instanceId: id });
    await world.gone(id);
    const { name = '', labels = {}, annotations = {} } = claim.metadata;
    const { accessModes = [], resources = {} } = claim.spec ?? {};
    const late = {
      apiVersion: 'v1',
      kind: 'PersistentVolumeClaim',
      metadata: { name, labels, annotations },
      spec: { accessModes, resources },
    };
    await world.cluster.create('persistentvolumeclaims', late, {});
    deepStrictEqual((await world.leftovers()).length, 1);
    return record;
  },
  async ask(world) {
    await world.operator.producer.sweep({ version: 1, kinds: ['orphans'] });
  },
  async end(world) {
    const until = Date.now() + 60_000;
    while ((await world.leftovers()).length > 0) {
      ok(Date.now() < until, 'the sweep removed what nobody owns');
      await new Promise((resolve) => setTimeout(resolve, 100));
    }
  },
};

export const scenarios: readonly Scenario[] = [launch, teardown, rollback, keep, relaunch, reconnect, sweep];
