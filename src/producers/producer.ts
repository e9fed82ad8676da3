import { randomBytes } from 'node:crypto';
import { WindlassError } from '../errors.ts';
import type { Inventory, LaunchAnswer, PendingJob } from '../inventory/port.ts';
import { redisError } from '../inventory/redis-error.ts';
import type { Sealer } from '../inventory/secrets.ts';
import type { Shelf } from '../inventory/shelf.ts';
import type { InstanceRecord } from '../inventory/types.ts';
import { extendSchema, launchAttempts, sweepSchema, teardownSchema } from '../jobs/catalog.ts';
import type { SweepReport } from '../jobs/context.ts';
import { idSchema } from '../jobs/ids.ts';
import { parsePayload } from '../jobs/parse.ts';
import { canonicalJson, sha256 } from '../names.ts';
import { askReconnect, askRetry } from './again.ts';
import { type DeadLetter, deadLetters, type Redriven, redrive } from './dead-letters.ts';
import { type Offer, readOffer } from './offer.ts';
import type { Queues } from './queue.ts';
import { acceptLaunch } from './validate.ts';

export interface Accepted {
  readonly instanceId: string;
  readonly generation: number;
  readonly jobId: string;
  readonly state: string;
  readonly deduplicated: boolean;
}

/** Who asks. `owner` is used where the payload names none; `secretEnv` is sealed here and never leaves in the clear. */
export interface Caller {
  readonly owner?: string;
  readonly secretEnv?: Readonly<Record<string, string>>;
  /** An operator may name any owner's instance. */
  readonly anyOwner?: boolean;
}

export interface Producer {
  launch(payload: unknown, by?: Caller): Promise<Accepted>;
  teardown(payload: unknown, by?: Caller): Promise<Accepted>;
  /** A new run of a ready, lost or suspended instance: looks for exactly what the record names, and rebuilds a lost Pod. */
  reconnect(instanceId: string, by?: Caller): Promise<Accepted>;
  /** A new generation of a failed instance with the same request. */
  retry(instanceId: string, by?: Caller): Promise<Accepted>;
  /** Jobs that failed for good, the latest first, with reason and evidence. */
  deadLetters(): Promise<DeadLetter[]>;
  /** Sends the letters of a job id or an instance id, or (undefined) all that can be, again as new runs. */
  redrive(id: string | undefined): Promise<Redriven[]>;
  sweep(payload: unknown): Promise<{ jobId: string }>;
  /** Resolves with the reports of that sweep; `wait_timeout` when they are not there in time. */
  sweepReports(jobId: string, timeoutMs: number): Promise<{ reports: SweepReport[] }>;
  /** Reports of the last sweeps, newest first; of one job when `id` is given. */
  lastSweeps(id?: string): Promise<SweepReport[]>;
  /** Moves an instance's end later, at most to the limits; `clamped` = they were met. */
  extend(
    payload: unknown,
    by?: Caller,
  ): Promise<{ readonly instanceId: string; readonly expiresAt: string; readonly clamped: boolean }>;
  offer(): Promise<Offer>;
  /** Opened on first use: readers of records never load BullMQ. */
  queues(): Promise<Queues>;
}

export interface ProducerOptions {
  readonly inventory: Inventory;
  readonly shelf: Shelf;
  readonly queues: () => Promise<Queues>;
  /** Adds a job under its id, to be repeated after any crash. */
  readonly add: (job: PendingJob) => Promise<void>;
  readonly sealer: Sealer;
  /** Keys the request hash, so that whoever reads Redis cannot guess a request from it. */
  readonly hashKey: Uint8Array;
  /** What to validate against while no worker has published yet (a command line that has the configuration). */
  readonly fallbackOffer: Offer | undefined;
  readonly waitForReports: (jobId: string, timeoutMs: number) => Promise<SweepReport[]>;
  readonly lastReports: () => Promise<SweepReport[]>;
}

export function createProducer(options: ProducerOptions): Producer {
  const { inventory, shelf, queues, add } = options;
  const offer = async () => {
    const found = (await readOffer(shelf)) ?? options.fallbackOffer;
    if (found === undefined)
      throw new WindlassError('profile_unknown', 'No worker has published what it offers yet.', {
        hint: 'Start a worker first.',
      });
    return found;
  };
  const send = async (job: PendingJob) => {
    try {
      await add(job);
    } catch (error) {
      // The request is stored: what the queue cannot take now, a worker adds from its pending entry. Only a removal gets
      // this far when Redis is full.
      if (redisError(error).code === 'redis_unavailable') return;
      throw error;
    }
    await inventory.clearPending(job.jobId);
  };
  return {
    queues,
    offer,
    launch: (payload, by = {}) => launch(options, payload, by, offer, send),
    teardown: (payload, by = {}) => teardown(options, payload, by, send),
    reconnect: (instanceId, by = {}) => reconnect(options, instanceId, by, send),
    retry: (instanceId, by = {}) => retry(options, instanceId, by, offer, send),
    deadLetters: () => deadLetters({ inventory, queues, send }),
    redrive: (id) => redrive({ inventory, queues, send }, id),
    async sweep(payload) {
      const request = parsePayload(sweepSchema, payload, 'sweep');
      const jobId = `sweep-${randomBytes(8).toString('hex')}`;
      await add({ queue: 'sweep', jobId, name: 'sweep', data: request, priority: 1 });
      return { jobId };
    },
    async lastSweeps(id) {
      const reports = await options.lastReports();
      return id === undefined ? reports : reports.filter((report) => report.id === id);
    },
    extend: async (payload, by = {}) => extend(options, payload, by, (await offer()).limits),
    sweepReports: async (jobId, timeoutMs) => ({ reports: await options.waitForReports(jobId, timeoutMs) }),
  };
}

type Send = (job: PendingJob) => Promise<void>;

async function launch(
  options: ProducerOptions,
  payload: unknown,
  by: Caller,
  offer: () => Promise<Offer>,
  send: Send,
): Promise<Accepted> {
  const accepted = acceptLaunch(withSecrets(payload, by), await offer(), by);
  const instanceId = accepted.payload.instanceId ?? randomBytes(16).toString('hex');
  const { secretEnv, sealedEnv, ...rest } = { ...accepted.payload, instanceId, owner: accepted.owner, cluster: accepted.cluster };
  const sealed =
    sealedEnv ??
    (secretEnv && Object.keys(secretEnv).length > 0
      ? await options.sealer.seal(secretEnv, { owner: accepted.owner, instanceId })
      : '');
  const answer = await options.inventory.intendLaunch({
    instanceId,
    owner: accepted.owner,
    payload: rest,
    requestHash: requestHash(options.hashKey, rest, Object.keys(secretEnv ?? {})),
    cluster: accepted.cluster,
    profile: rest.profile ?? '',
    app: rest.app ?? '',
    sealedEnv: sealed,
    deadlineSeconds: accepted.deadlineSeconds,
    attempts: launchAttempts,
    lifetime: accepted.lifetime,
    limits: accepted.limits,
  });
  return answerOf(instanceId, answer, send);
}

type ToSend = Extract<LaunchAnswer, { job: PendingJob }>;

async function sent(instanceId: string, answer: ToSend, send: Send): Promise<Accepted> {
  const { kind, generation, state, job } = answer;
  await send(job);
  return { instanceId, generation, jobId: job.jobId, state, deduplicated: kind === 'deduplicated' };
}

async function answerOf(instanceId: string, answer: LaunchAnswer, send: Send): Promise<Accepted> {
  if (answer.kind === 'conflict')
    throw new WindlassError('instance_conflict', `The instance "${instanceId}" is live with other content.`);
  if (answer.kind === 'taken') throw new WindlassError('instance_id_taken', `The id "${instanceId}" belongs to another owner.`);
  return sent(instanceId, answer, send);
}

async function reconnect(options: ProducerOptions, instanceId: string, by: Caller, send: Send): Promise<Accepted> {
  const record = await existing(options, instanceId, by);
  const hint = record.state === 'failed' ? '`windlass retry` launches it again.' : 'Wait until it is gone, then launch it again.';
  if (record.state === 'failed' || record.intent === 'absent') {
    throw new WindlassError(
      'instance_conflict',
      `The instance "${instanceId}" has nothing to reconnect to: it is ${record.state}.`,
      { hint },
    );
  }
  const answer = await askReconnect(options.inventory, record);
  // A newer request came since the record was read: what it says now decides.
  if (answer.kind === 'overtaken') return reconnect(options, instanceId, by, send);
  return answerOf(instanceId, answer, send);
}

async function retry(
  options: ProducerOptions,
  instanceId: string,
  by: Caller,
  offer: () => Promise<Offer>,
  send: Send,
): Promise<Accepted> {
  const record = await existing(options, instanceId, by);
  if (record.state !== 'failed') {
    const hint =
      record.state === 'lost' || record.state === 'ready'
        ? '`windlass reconnect` takes it up again.'
        : '`windlass explain` shows what it waits for.';
    throw new WindlassError('instance_conflict', `Only a failed instance can be retried; "${instanceId}" is ${record.state}.`, {
      hint,
    });
  }
  // As a first launch: what is not offered any more is refused before anything is written.
  acceptLaunch(record.request.payload, await offer(), by);
  const { sealedEnv = '' } = await options.inventory.secrets(record.hash);
  const answer = await askRetry(options.inventory, record, sealedEnv);
  if (answer.kind === 'overtaken') return retry(options, instanceId, by, offer, send);
  return answerOf(instanceId, answer, send);
}

/** Another owner's instance is answered as if it were not there. */
async function existing({ inventory }: ProducerOptions, instanceId: string, by: Caller): Promise<InstanceRecord> {
  const record = await inventory.read(instanceId);
  const mine = (owner: string) => by.anyOwner === true || by.owner === undefined || by.owner === owner;
  if (record !== undefined && mine(record.owner)) return record;
  const tombstone = record === undefined ? await inventory.tombstone(instanceId) : undefined;
  if (tombstone !== undefined && mine(tombstone.owner))
    throw new WindlassError('instance_gone', `The instance "${instanceId}" was torn down.`);
  throw new WindlassError('instance_not_found', `There is no instance "${instanceId}".`);
}

/** Secrets given beside the payload (`--secret-env`) count as if they were in it. */
function withSecrets(payload: unknown, by: Caller): unknown {
  if (by.secretEnv === undefined || payload === null || typeof payload !== 'object') return payload;
  const given = (payload as { secretEnv?: Record<string, string> }).secretEnv;
  return { ...payload, secretEnv: { ...given, ...by.secretEnv } };
}

/** Covers the names of secrets, never their values (contract §4). */
function requestHash(key: Uint8Array, payload: object, secretNames: readonly string[]): string {
  return sha256(`${Buffer.from(key).toString('hex')}\n${canonicalJson({ payload, secretNames: [...secretNames].sort() })}`);
}

async function extend(options: ProducerOptions, payload: unknown, by: Caller, limits: Offer['limits']) {
  const { instanceId, bySeconds } = parsePayload(extendSchema, payload, 'extend');
  const answer = await options.inventory.extend({
    instanceId,
    ...(by.anyOwner === true || by.owner === undefined ? {} : { owner: by.owner }),
    by: bySeconds * 1000,
    longest: limits.maxLifetimeSeconds * 1000,
    suspended: limits.suspendedSeconds * 1000,
  });
  if (answer.kind === 'unfit')
    throw new WindlassError(
      'instance_conflict',
      `The instance "${instanceId}" is ${answer.state}: only what runs or is suspended has an end to move.`,
    );
  if (answer.kind !== 'ok') {
    if (answer.kind === 'gone') throw new WindlassError('instance_gone', `The instance "${instanceId}" was torn down already.`);
    throw new WindlassError('instance_not_found', `There is no instance "${instanceId}".`);
  }
  return { instanceId, expiresAt: new Date(answer.expiresAt).toISOString(), clamped: answer.clamped };
}

async function teardown(options: ProducerOptions, payload: unknown, by: Caller, send: Send): Promise<Accepted> {
  const request = parsePayload(teardownSchema, payload, 'teardown');
  const { instanceId } = request;
  const owner = by.anyOwner === true ? undefined : by.owner;
  const answer = await options.inventory.intendRemoval({
    instanceId: idSchema.parse(instanceId),
    intent: request.keepWorkspace ? 'suspended' : 'absent',
    payload: request,
    ...(owner === undefined ? {} : { owner }),
  });
  if (answer.kind === 'missing') throw new WindlassError('instance_not_found', `There is no instance "${instanceId}".`);
  if (answer.kind === 'gone') throw new WindlassError('instance_gone', `The instance "${instanceId}" was torn down already.`);
  return sent(instanceId, answer, send);
}
