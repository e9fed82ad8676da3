import type { Job } from 'bullmq';
import { WindlassError } from '../errors.ts';
import { type JobReference, jobReference, launchAttempts, launchSchema, sweepSchema, teardownSchema } from '../jobs/catalog.ts';
import type { JobContext } from '../jobs/context.ts';
import type { Exit } from '../jobs/exit.ts';
import { launch } from '../jobs/launch.ts';
import { parsePayload, refuseNewerVersion } from '../jobs/parse.ts';
import { sweep } from '../jobs/sweep.ts';
import { teardown } from '../jobs/teardown.ts';
import { canonicalJson, sha256 } from '../names.ts';
import { offerOf } from '../producers/offer.ts';
import { acceptLaunch } from '../producers/validate.ts';

/** How long a job of a newer payload version stays parked before another worker may look at it. */
const parkedMs = 10_000;

/** Parses what the queue holds and calls the handler of its queue. */
export async function runHandler(context: JobContext, queue: 'launch' | 'teardown' | 'sweep', job: Job): Promise<Exit> {
  try {
    refuseNewerVersion(job.data as Record<string, unknown>);
  } catch (error) {
    if (error instanceof WindlassError) return parked(context, error);
    throw error;
  }
  if (queue === 'sweep') return sweep(context, parsePayload(sweepSchema, job.data, 'sweep'));
  const reference = await referenceOf(context, queue, job);
  return queue === 'launch' ? launch(context, reference) : teardown(context, reference);
}

async function parked(context: JobContext, error: WindlassError): Promise<Exit> {
  const ticket = await context.inventory.registerWait(context.job, ['parked']);
  return { kind: 'wait', reason: error.code, delayMs: parkedMs, keys: ['parked'], ticket, ready: async () => false };
}

/** Our own entries name a generation; a raw job of another service gets its intent here, by the same script, keyed by job id. */
async function referenceOf(context: JobContext, queue: 'launch' | 'teardown', job: Job): Promise<JobReference> {
  const known = jobReference.safeParse(job.data);
  if (known.success) return known.data;
  return queue === 'launch' ? rawLaunch(context, job) : rawTeardown(context, job);
}

async function rawLaunch(context: JobContext, job: Job): Promise<JobReference> {
  const data = job.data as Record<string, unknown>;
  // `scrubbed` too: tried again, such a job would start without its secrets.
  if (data.secretEnv !== undefined || data.scrubbed !== undefined) await scrub(job, data);
  // Without an id of its own it gets one from the job's id, so that a second attempt means the same instance.
  const instanceId = typeof data.instanceId === 'string' ? data.instanceId : sha256(`job ${job.id}`).slice(0, 32);
  // Fields of a newer minor version are ignored (C89); a producer of this version refuses them.
  const known = Object.fromEntries(Object.entries(data).filter(([key]) => Object.hasOwn(launchSchema.shape, key)));
  const accepted = acceptLaunch({ ...known, instanceId }, offerOf(context.config, context.recipes), {});
  const {
    sealedEnv,
    secretEnv: _none,
    ...payload
  } = { ...accepted.payload, instanceId, owner: accepted.owner, cluster: accepted.cluster };
  const answer = await context.inventory.intendLaunch({
    instanceId,
    owner: accepted.owner,
    payload,
    requestHash: sha256(canonicalJson({ raw: payload })),
    cluster: accepted.cluster,
    profile: payload.profile ?? '',
    app: payload.app ?? '',
    sealedEnv: sealedEnv ?? '',
    deadlineSeconds: accepted.deadlineSeconds,
    attempts: launchAttempts,
    lifetime: accepted.lifetime,
    limits: accepted.limits,
    rawJobId: job.id ?? '',
  });
  if (answer.kind === 'conflict') throw new WindlassError('instance_conflict');
  if (answer.kind === 'taken') throw new WindlassError('instance_id_taken');
  await context.inventory.clearPending(answer.job.jobId);
  return { version: 1, instanceId, generation: answer.generation, run: answer.run };
}

/** Secrets in the clear do not stay in Redis: the values go, and the job is refused. */
async function scrub(job: Job, data: Record<string, unknown>): Promise<never> {
  const { secretEnv: _secret, ...rest } = data;
  await job.updateData({ ...rest, scrubbed: ['secretEnv'] });
  throw new WindlassError('payload_invalid', 'A raw job must not carry secretEnv in the clear; it was removed.', {
    issues: [{ path: 'secretEnv', message: 'must be sealed into sealedEnv' }],
  });
}

async function rawTeardown(context: JobContext, job: Job): Promise<JobReference> {
  const request = parsePayload(teardownSchema, job.data, 'teardown');
  const answer = await context.inventory.intendRemoval({
    instanceId: request.instanceId,
    intent: request.keepWorkspace ? 'suspended' : 'absent',
    payload: request,
    rawJobId: job.id ?? '',
  });
  if (answer.kind === 'missing') throw new WindlassError('instance_not_found');
  if (answer.kind === 'gone') throw new WindlassError('instance_gone');
  await context.inventory.clearPending(answer.job.jobId);
  return { version: 1, instanceId: request.instanceId, generation: answer.generation, run: answer.run };
}
