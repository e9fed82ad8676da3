import { deepStrictEqual, equal, ok } from 'node:assert/strict';
import { poll } from '../../../src/clock.ts';
import type { InstanceRecord } from '../../../src/inventory/types.ts';
import { claimName, podName } from '../../../src/names.ts';
import type { World } from '../world.ts';
import { type Before, type Ending, prepareStep, type Scenario, secret } from './scenarios.ts';

/** How long an end may take to come: never the verdict, unless it does not come at all. */
const patienceSeconds = 300;

/** The one Pod of the instance that is not on its way out, on the cluster. */
export async function livePod(world: World, id: string): Promise<string | undefined> {
  const pod = await world.cluster.read('pods', podName(world.operator.inventory.hashOf(id)));
  return pod?.metadata?.deletionTimestamp === undefined ? pod?.metadata?.uid : undefined;
}

export interface Run {
  readonly world: World;
  readonly id: string;
  readonly scenario: Scenario;
  /** What was there before the killed worker was asked. */
  readonly before: Before;
  /** UID of the Pod that the killed worker left, on record or not. */
  readonly leftPod: string | undefined;
  /** What all workers made for the instance since it was asked, by the API server's own log. */
  readonly made: () => Promise<Scenario['makes']>;
}

/** Waits for the end of a run and throws unless all of it is right. */
export async function assertEnd(run: Run): Promise<void> {
  await reached(run);
  await atRest(run);
  const record = await run.world.operator.inventory.read(run.id);
  equal(record?.state ?? 'gone', run.scenario.ending, 'it stays what it became');
  await ends[run.scenario.ending](run, record);
  run.scenario.check?.(record, run.before);
  deepStrictEqual(await run.made(), run.scenario.makes, 'no Pod and no claim was made that is not needed');
}

async function reached({ world, id, scenario: { ending } }: Run): Promise<void> {
  if (ending === 'gone') {
    const nothing = async () => (await world.leftovers()).length === 0;
    await world.gone(id, patienceSeconds);
    ok(await poll(nothing, { everyMs: 100, forMs: patienceSeconds * 1000 }), 'what nobody owns was removed');
  } else if (ending === 'ready') await world.ready(id, patienceSeconds);
  else await world.until(id, (current) => current?.state === ending, patienceSeconds);
}

/** No job is left, none may be missing from its queue, and nobody holds the instance. */
async function atRest({ world, id }: Run): Promise<void> {
  const { inventory } = world.operator;
  const restless = async () => ({
    jobs: await openJobs(world),
    pending: (await inventory.stalePending(0)).length,
    holder: (await inventory.leaseHolder(inventory.hashOf(id)))?.holder,
  });
  const still = async () => {
    const { jobs, pending, holder } = await restless();
    return jobs === 0 && pending === 0 && holder === undefined;
  };
  const rests = await poll(still, { everyMs: 100, forMs: patienceSeconds * 1000 });
  ok(rests, `it ended, and something goes on: ${JSON.stringify(await restless())}`);
}

/** Jobs of all queues that have not ended, but for sweeps of the schedule. */
export async function openJobs(world: World): Promise<number> {
  const { launch, teardown, sweep } = await world.operator.producer.queues();
  const counts = await Promise.all([
    ...[launch, teardown].map((queue) => queue.getJobCountByTypes('waiting', 'active', 'prioritized', 'delayed')),
    sweep.getJobCountByTypes('waiting', 'active', 'prioritized'),
  ]);
  return counts.reduce((sum, count) => sum + count, 0);
}

const ends: Readonly<Record<Ending, (run: Run, record: Before) => Promise<void>>> = {
  async ready(run, record) {
    await assertRecorded(run, record);
    const { world, id } = run;
    // With what the smallest image has.
    const shell = async (script: string) => (await world.exec(id, ['/bin/sh', '-c', script])).stdout;
    equal(await shell('printf %s "$TOKEN"'), secret, 'the instance works');
    const lines = await shell(`while read -r line; do echo "$line"; done <${prepareStep.file}`);
    equal(lines, prepareStep.leaves, 'it was prepared once');
  },
  async failed({ world }, record) {
    assertNothingOpen(record);
    deepStrictEqual(await world.leftovers(), []);
    equal(record?.pod, null, 'no Pod is on record');
  },
  async suspended({ world }, record) {
    assertNothingOpen(record);
    const name = record?.workspace?.claimName ?? '';
    deepStrictEqual(await world.leftovers(), [`persistentvolumeclaims/${name}`]);
    const claim = await world.cluster.read('persistentvolumeclaims', name);
    equal(claim?.metadata?.annotations?.['windlass.dev/retained'], 'true');
    equal(claim?.metadata?.uid, record?.workspace?.claimUid, 'the claim is the recorded one');
    equal(record?.pod, null, 'no Pod is on record');
  },
  async gone({ world, id, before }) {
    deepStrictEqual(await world.leftovers(), []);
    const tombstone = await world.operator.inventory.tombstone(id);
    ok(tombstone !== undefined && tombstone.generation >= (before?.generation ?? 0), 'a tombstone covers what was there');
  },
};

/** Ready, with the one Pod and the one claim that the record names, and the same Pod as the killed worker made. */
async function assertRecorded({ world, leftPod }: Run, record: Before): Promise<void> {
  ok(record);
  assertNothingOpen(record);
  const pod = await world.cluster.read('pods', podName(record.hash));
  const claim = await world.cluster.read('persistentvolumeclaims', claimName(record.hash));
  equal(pod?.metadata?.uid, record.pod?.uid, 'the Pod is the recorded one');
  equal(claim?.metadata?.uid, record.workspace?.claimUid, 'the claim is the recorded one');
  if (leftPod !== undefined) equal(record.pod?.uid, leftPod, 'the same Pod as the killed worker made');
  equal((await world.leftovers()).length, 2, 'one Pod and one claim');
}

/** No send whose fate is unknown, and no start that is counted as a crash. */
function assertNothingOpen(record: InstanceRecord | undefined): void {
  const open = Object.values(record?.creates ?? {}).filter((create) => create.open);
  deepStrictEqual(open, [], 'no create is still open');
  equal(record?.crashes, 0, 'it ended in order');
}
