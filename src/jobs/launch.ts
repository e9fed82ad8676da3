import { asWindlassError, WindlassError } from '../errors.ts';
import type { BeginAnswer } from '../inventory/port.ts';
import type { InstanceRecord } from '../inventory/types.ts';
import { claimName, podName } from '../names.ts';
import { acceptGeneration, openRecorded } from './accept.ts';
import { createBench, type HeldJob } from './bench.ts';
import { type JobReference, type LaunchPayload, launchObject } from './catalog.ts';
import { identityOf } from './compose-input.ts';
import { instanceKey, type JobContext } from './context.ts';
import { isInventoryLost } from './epoch.ts';
import type { Exit } from './exit.ts';
import { planOf } from './plan.ts';
import { resumes } from './resume.ts';
import { failLaunch, finishRollback } from './rollback.ts';
import { runStages } from './run-stages.ts';
import { waitForBegin } from './waiting.ts';

/** Starts in a row that no handler ended in order: a launch that kills its workers must not go on for ever. */
const maxCrashes = 10;

type Begun = Extract<BeginAnswer, { kind: 'ok' }>;

/** One attempt of a launch; every start goes the same way: read the record, go on from it (I7). */
export async function launch(context: JobContext, reference: JobReference): Promise<Exit> {
  const record = await context.inventory.read(reference.instanceId);
  if (record === undefined || record.generation !== reference.generation || record.run !== reference.run)
    return ended('superseded');
  const payload = launchObject.parse(record.request.payload);
  const set = await acceptedFields(context, record);
  if (set instanceof WindlassError) return refused(context, reference, record, set);
  if (set === 'recovering') return waitForBegin(context, record, set);
  if (context.pressed() && record.state === 'requested' && !(await isLate(context, record))) {
    if (payload.failFast === true) return refused(context, reference, record, new WindlassError('throttled'), true);
    return waitForBegin(context, record, 'throttled');
  }
  const begun = await beginInTime(context, reference, record, set);
  if (begun.kind === 'changed') return launch(context, reference);
  if (begun.kind === 'wait') {
    const capped = begun.reason === 'owner_limit' || begun.reason === 'cluster_saturated';
    if (capped && payload.failFast === true) return refused(context, reference, record, new WindlassError(begun.reason), true);
    return waitForBegin(context, record, begun.reason, () => begin(context, reference, record, set, true));
  }
  if (begun.kind !== 'ok') return leave(begun);
  return attempt(context, begun, payload);
}

/** While the inventory is lost, a name that exists may be somebody's running workspace: it waits for the recovery (design §7). */
async function existsUnrecorded(context: JobContext, record: InstanceRecord): Promise<boolean> {
  const made =
    record.pod !== null || record.workspace !== null || Object.values(record.creates).some((intent) => intent.sentAt > 0);
  if (made) return false;
  const cluster = context.clusters.get(record.cluster);
  if (!(await isInventoryLost(cluster, context.shelf, context.config.installation, context.signal))) return false;
  const [pod, claim] = await Promise.all([
    cluster.read('pods', podName(record.hash), { signal: context.signal }),
    cluster.read('persistentvolumeclaims', claimName(record.hash), { signal: context.signal }),
  ]);
  return pod !== undefined || claim !== undefined;
}

/**
 * What this generation begins with. Whatever goes wrong here (a configuration that refuses what an older offer allowed, an
 * absent namespace, an API server that does not answer) is a failure of the attempt: a job that only threw would leave a
 * record that waits for nobody.
 */
async function acceptedFields(
  context: JobContext,
  record: InstanceRecord,
): Promise<Partial<InstanceRecord> | 'recovering' | WindlassError> {
  try {
    const set = await acceptGeneration(context, record);
    const waits = (await existsUnrecorded(context, record)) && !(await isLate(context, record));
    return waits ? 'recovering' : set;
  } catch (thrown) {
    const error = asWindlassError(thrown);
    if (error.row.disposition === 'yielded') throw error;
    return error;
  }
}

async function refused(
  context: JobContext,
  reference: JobReference,
  record: InstanceRecord,
  error: WindlassError,
  final = false,
): Promise<Exit> {
  const begun = await begin(context, reference, record, {}, false);
  if (begun.kind === 'changed') return launch(context, reference);
  if (begun.kind === 'wait') return waitForBegin(context, record, begun.reason);
  if (begun.kind !== 'ok') return leave(begun);
  return failLaunch(createBench(context, begun), error, 'accept', final);
}

/** Deadlines are Redis time, and so is the question: a worker's own clock may be hours off (I28). */
const isLate = async (context: JobContext, record: InstanceRecord): Promise<boolean> =>
  (await context.inventory.now()) > record.deadlineAt;

/** A launch past its deadline begins without caps: it only ends in order. */
async function beginInTime(
  context: JobContext,
  reference: JobReference,
  record: InstanceRecord,
  set: Partial<InstanceRecord>,
): Promise<BeginAnswer> {
  const begun = await begin(context, reference, record, set, true);
  const capped = begun.kind === 'wait' && (begun.reason === 'owner_limit' || begun.reason === 'cluster_saturated');
  if (!capped || !(await isLate(context, record))) return begun;
  return begin(context, reference, record, set, false);
}

async function begin(
  context: JobContext,
  reference: JobReference,
  record: InstanceRecord,
  set: Partial<InstanceRecord>,
  capped: boolean,
): Promise<BeginAnswer> {
  const { perOwner, maxInstances, launching } = context.config.limits;
  const caps = capped ? { caps: { owner: perOwner, cluster: maxInstances, global: maxInstances, launching } } : {};
  return context.inventory.begin(reference.instanceId, {
    verb: 'launch',
    job: context.job.jobId,
    generation: reference.generation,
    run: reference.run,
    set,
    ...(record.version === undefined ? {} : { seen: record.version }),
    ...caps,
  });
}

function leave(begun: Exclude<BeginAnswer, { kind: 'ok' | 'wait' | 'changed' }>): Exit {
  if (begun.kind === 'settled')
    return { kind: 'done', result: { state: begun.record.state, generation: begun.record.generation } };
  return ended('superseded');
}

const crashed = (starts: number) =>
  new WindlassError('unclassified', `The launch was started ${starts} times in a row without an end.`, { evidence: { starts } });

const ended = (code: 'superseded'): Exit => ({ kind: 'yielded', error: new WindlassError(code), again: false });

async function attempt(context: JobContext, begun: Begun, payload: LaunchPayload): Promise<Exit> {
  const base = createBench(context, begun);
  if (begun.record.state === 'rolling_back') return finishRollback(base);
  if (begun.record.crashes > maxCrashes) return failLaunch(base, crashed(begun.record.crashes), 'launch');
  try {
    const unfinished = await walk(base, payload);
    if (unfinished !== undefined) return unfinished;
    // From here on it is ready: what goes wrong with this write is no failure of the launch.
    await base.write({ release: true, wake: [instanceKey(base.record())] });
    return { kind: 'done', result: { state: 'ready', generation: begun.record.generation } };
  } finally {
    // Orderly exits have released already; a throw out of here must not keep the name for a whole lease.
    await base.lease
      .release()
      .catch((error: unknown) => context.log.warn({ code: asWindlassError(error).code }, 'lease not released'));
  }
}

async function walk(job: HeldJob, payload: LaunchPayload): Promise<Exit | undefined> {
  try {
    assertSamePlace(job);
    const { profile, template } = await openRecorded(job, job.record());
    const identity = identityOf(job.config.installation, job.record(), payload);
    return await runStages({ ...job, identity, payload, profile, template }, planOf(profile));
  } catch (error) {
    return failLaunch(job, error, undefined);
  }
}

/** In another namespace nothing of it would be found, and everything would look lost. */
function assertSamePlace(job: HeldJob): void {
  const record = job.record();
  if (!resumes(record) || record.namespace === job.cluster.namespace) return;
  throw new WindlassError(
    'unrecoverable',
    `The instance is in namespace ${record.namespace}, but cluster ${record.cluster} is configured for ${job.cluster.namespace}.`,
    {
      hint: 'Configure the cluster as it was when the instance was launched.',
    },
  );
}
