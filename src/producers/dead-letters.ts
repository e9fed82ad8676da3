import { asWindlassError, WindlassError } from '../errors.ts';
import type { Inventory, LaunchAnswer, PendingJob } from '../inventory/port.ts';
import type { FailureRecord, InstanceRecord, State } from '../inventory/types.ts';
import { type JobReference, jobReference } from '../jobs/catalog.ts';
import { askRedrive } from './again.ts';
import { type FailedJob, failedJobs, forgetJob, type QueueName, type Queues, retryJob } from './queue.ts';

/** A job that failed for good: with its reason, and whether it can be sent again. */
export interface DeadLetter {
  readonly queue: QueueName;
  readonly jobId: string;
  readonly instanceId: string | null;
  readonly generation: number | null;
  readonly run: number | null;
  /** Of the instance now; null when it has no record (any more). */
  readonly state: State | null;
  /** `code: message` as the job ended; the failure of the record when that is of the same run, with its evidence. */
  readonly reason: string;
  readonly failure: FailureRecord | null;
  readonly failedAt: string;
  /** False when something newer has taken its place: then there is nothing to send again. */
  readonly redrivable: boolean;
}

/** What became of a letter: the new job, or why there is none. */
export interface Redriven {
  readonly jobId: string;
  readonly instanceId: string | null;
  readonly newJobId: string | null;
  readonly error?: { readonly code: string; readonly message: string };
}

interface Post {
  readonly inventory: Inventory;
  readonly queues: () => Promise<Queues>;
  readonly send: (job: PendingJob) => Promise<void>;
}

interface Letter {
  readonly job: FailedJob;
  readonly reference: JobReference | undefined;
  readonly record: InstanceRecord | undefined;
}

/** All that failed for good and is still kept (see `retained` in queue.ts), the latest first. */
export async function deadLetters(post: Post): Promise<DeadLetter[]> {
  return (await letters(post)).map(shown);
}

/**
 * Sends one letter (by its job id, or all of an instance by its id) or every one that can be, again: as a new run, since
 * a queue does not take an id twice. What was sent is no dead letter any more.
 */
export async function redrive(post: Post, id: string | undefined): Promise<Redriven[]> {
  const all = await letters(post);
  const chosen = id === undefined ? all.filter(isRedrivable) : all.filter((letter) => namedBy(letter, id));
  if (chosen.length === 0 && id !== undefined)
    throw new WindlassError('instance_not_found', `There is no dead letter "${id}": neither a job nor an instance has one.`, {
      hint: '`windlass dead-letters` shows what there is.',
    });
  const wanted = chosen.filter(isRedrivable);
  if (wanted.length === 0 && chosen[0] !== undefined) throw overtaken(chosen[0]);
  const answers: Redriven[] = [];
  for (const letter of wanted) {
    const answer = await sendAgain(post, letter);
    answers.push(answer);
    // The others would wait for it in vain, each for its whole time.
    if (answer.error?.code === 'redis_unavailable') break;
  }
  return answers;
}

async function letters({ inventory, queues }: Post): Promise<Letter[]> {
  const jobs = await failedJobs(await queues());
  const found = await Promise.all(
    jobs.map(async (job): Promise<Letter> => {
      const reference = jobReference.safeParse(job.data).data;
      const record = job.queue === 'sweep' ? undefined : await inventory.read(instanceOf(job) ?? '');
      return { job, reference, record };
    }),
  );
  return found.sort((a, b) => b.job.failedAt - a.job.failedAt);
}

const instanceOf = ({ data }: FailedJob): string | undefined =>
  typeof data.instanceId === 'string' ? data.instanceId : undefined;
const namedBy = ({ job }: Letter, id: string): boolean => job.jobId === id || instanceOf(job) === id;

/** The record is still at the end of what this job was asked, so that a new run of it means what it meant. */
function isCurrent({ reference, record }: Letter): boolean {
  return reference !== undefined && record?.generation === reference.generation && record.run === reference.run;
}

function isRedrivable(letter: Letter): boolean {
  // Without a generation it was refused before anything was written, or is a sweep: it is taken as it is.
  if (letter.reference === undefined) return letter.record === undefined;
  if (letter.job.queue === 'launch')
    return isCurrent(letter) && letter.record?.intent === 'present' && letter.record.failure !== null;
  return letter.record !== undefined && letter.record.removeUpTo === letter.reference.generation;
}

const overtaken = ({ job, record }: Letter) =>
  new WindlassError(
    'instance_conflict',
    `The dead letter "${job.jobId}" has been overtaken: its instance is ${record?.state ?? 'gone'} by a newer request.`,
  );

function shown(letter: Letter): DeadLetter {
  const { job, reference, record } = letter;
  return {
    queue: job.queue,
    jobId: job.jobId,
    instanceId: instanceOf(job) ?? null,
    generation: reference?.generation ?? null,
    run: reference?.run ?? null,
    state: record?.state ?? null,
    reason: job.reason,
    failure: isCurrent(letter) ? (record?.failure ?? null) : null,
    failedAt: new Date(job.failedAt).toISOString(),
    redrivable: isRedrivable(letter),
  };
}

async function sendAgain(post: Post, letter: Letter): Promise<Redriven> {
  const { job } = letter;
  const about = { jobId: job.jobId, instanceId: instanceOf(job) ?? null };
  let newJobId: string | undefined;
  try {
    newJobId = await newRun(post, letter);
    if (newJobId === undefined) throw overtaken(letter);
    // Last: a crash before this leaves a letter that says itself overtaken, never a request that nobody has.
    if (newJobId !== job.jobId) await forgetJob(await post.queues(), job);
    return { ...about, newJobId };
  } catch (error) {
    // Told with its letter: what was sent before it must be told as well, and those after it have their turn.
    const { code, message } = asWindlassError(error);
    return { ...about, newJobId: newJobId ?? null, error: { code, message } };
  }
}

/** undefined = somebody was quicker. */
async function newRun(post: Post, { job, reference, record }: Letter): Promise<string | undefined> {
  if (reference === undefined || record === undefined) {
    return (await retryJob(await post.queues(), job)) ? job.jobId : undefined;
  }
  if (job.queue === 'teardown') return removeAgain(post.inventory, record);
  const answer: LaunchAnswer = await askRedrive(post.inventory, record);
  if (answer.kind !== 'accepted') return undefined;
  await post.send(answer.job);
  return answer.job.jobId;
}

/** As the sweep for stuck records does: a worker adds the job that the script makes pending. */
async function removeAgain(inventory: Inventory, record: InstanceRecord): Promise<string | undefined> {
  const lease = await inventory.tryLease(record.hash);
  if (lease === undefined) throw new WindlassError('lease_held', 'Somebody works on this instance right now.');
  try {
    return (await inventory.requeue(lease, true))?.jobId;
  } finally {
    await lease.release();
  }
}
