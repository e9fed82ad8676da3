import { randomBytes } from 'node:crypto';
import { hostname } from 'node:os';
import type { AgentClient } from './agent/client.ts';
import { agentPort } from './agent/protocol.ts';
import { monotonicMs, sleep, within } from './clock.ts';
import type { LoadedConfig } from './config/load.ts';
import type { Consumer } from './consumers/consumer.ts';
import { type Issue, refuse, WindlassError } from './errors.ts';
import { connected, createRedis } from './inventory/connection.ts';
import { createInventory } from './inventory/inventory.ts';
import { inventoryTag } from './inventory/keys.ts';
import type { Inventory, JobRef, PendingJob } from './inventory/port.ts';
import { checkRedis } from './inventory/redis-facts.ts';
import { checkCanaries, createKeyring, createSealer, type Keyring } from './inventory/secrets.ts';
import { createShelf, type Shelf } from './inventory/shelf.ts';
import type { InstanceRecord } from './inventory/types.ts';
import { agentClient, ensureIdleAgent } from './jobs/agent-instance.ts';
import type { JobContext, SweepReport } from './jobs/context.ts';
import type { RecoverReport } from './jobs/recover.ts';
import type { Clusters } from './kubernetes/port.ts';
import { createLogger, type Logger } from './log.ts';
import { offerOf } from './producers/offer.ts';
import { createProducer, type Producer } from './producers/producer.ts';
import type { QueueName, Queues } from './producers/queue.ts';

// BullMQ, the Kubernetes side and the handlers take long to load: the functions that need them import them, so that a
// verb that only reads records answers at once.

/** What a caller verb needs: Redis, no Kubernetes. */
export interface Caller {
  readonly loaded: LoadedConfig;
  readonly inventory: Inventory;
  readonly producer: Producer;
  /** False when nobody has taken jobs from this queue for a while: what is asked for waits. */
  workerSeen(queue: QueueName): Promise<boolean>;
  close(): Promise<void>;
}

/** A caller that may also look into the clusters and talk to agents. */
export interface Operator extends Caller {
  readonly clusters: Clusters;
  readonly keyring: Keyring;
  /** Rebuilds records from the clusters after Redis lost them. */
  recover(options: { readonly dryRun: boolean; readonly signal?: AbortSignal }): Promise<RecoverReport>;
  connectAgent(instanceId: string, options?: { localPort?: number; signal?: AbortSignal }): Promise<AgentAccess>;
}

export interface AgentAccess {
  readonly client: AgentClient;
  readonly url: string;
  readonly token: string;
  readonly record: InstanceRecord;
  close(): Promise<void>;
}

export interface WorkerHandle {
  /** Of health and metrics, when asked for. */
  readonly port: number | undefined;
  /** Drains: no new jobs, running ones handed back at their checkpoint. */
  close(): Promise<void>;
}

interface Base extends Caller {
  readonly shelf: Shelf;
  queues(): Promise<Queues>;
  readonly log: Logger;
  readonly holder: string;
}

/** Seconds that a closing process may wait for a Redis that does not answer. */
const closeMs = 2000;

export const openCaller = (loaded: LoadedConfig): Promise<Caller> => openBase(loaded);

async function openBase(loaded: LoadedConfig): Promise<Base> {
  const { config, env, dir } = loaded;
  const { installation } = config;
  const log = createLogger(config.log.level);
  const holder = `${hostname().replace(/[^A-Za-z0-9._-]/g, '-')}-${process.pid}-${randomBytes(4).toString('hex')}`;
  const redis = await connected(createRedis(config.redis, env, dir, 'commands'));
  const shelf = createShelf(redis, inventoryTag(config.redis.prefix, installation));
  const inventory = await createInventory({
    redis: config.redis,
    installation,
    retention: config.retention,
    env,
    dir,
    holder,
    log,
  });
  let opened: Promise<Queues> | undefined;
  const queues = () => {
    opened ??= import('./producers/queue.ts').then(({ openQueues }) => openQueues(redis, config.redis.prefix, installation));
    return opened;
  };
  const hashKey = Buffer.from(await shelf.putIfAbsent('request-hash-key', randomBytes(32).toString('hex')), 'hex');
  const sealer = createSealer(config.secrets.sealing[0], installation);
  const waitForReports = (jobId: string, timeoutMs: number) => reportsOf(shelf, jobId, timeoutMs);
  const lastReports = async () => shelf.items<SweepReport>((await import('./jobs/sweep.ts')).reportList);
  const add = async (job: PendingJob) => (await import('./producers/queue.ts')).addJob(await queues(), job);
  const fallbackOffer = offerOf(config);
  const producer = createProducer({ inventory, shelf, queues, add, sealer, hashKey, fallbackOffer, waitForReports, lastReports });
  return {
    loaded,
    inventory,
    producer,
    workerSeen: async (queue) => (await import('./jobs/worker-seen.ts')).isWorkerSeen(shelf, queue),
    shelf,
    queues,
    log,
    holder,
    async close() {
      const closing = opened?.then(async (open) => (await import('./producers/queue.ts')).closeQueues(open));
      await within(Promise.all([closing, inventory.close()]), closeMs);
      redis.disconnect();
    },
  };
}

async function reportsOf(shelf: Shelf, jobId: string, timeoutMs: number): Promise<SweepReport[]> {
  const { reportName } = await import('./jobs/sweep.ts');
  const until = monotonicMs() + timeoutMs;
  for (;;) {
    const reports = await shelf.get<SweepReport[]>(reportName(jobId));
    if (reports !== undefined) return reports;
    if (monotonicMs() > until) throw new WindlassError('wait_timeout', 'The sweep has not reported yet; it goes on.');
    await sleep(200);
  }
}

export async function openOperator(loaded: LoadedConfig): Promise<Operator> {
  const base = await openBase(loaded);
  const { config, env, dir } = loaded;
  const keyring = createKeyring(config.secrets, env, config.installation);
  const { createClusters } = await import('./kubernetes/clusters.ts');
  const clusters = createClusters(config.clusters, { installation: config.installation, dir, log: base.log });
  return {
    ...base,
    clusters,
    keyring,
    async recover({ dryRun, signal = new AbortController().signal }) {
      const { recover } = await import('./jobs/recover.ts');
      return recover({ ...base, config, clusters, keyring, signal }, { dryRun });
    },
    connectAgent: (instanceId, options = {}) => connectAgent({ ...base, clusters, keyring }, instanceId, options),
    async close() {
      await clusters.close();
      await base.close();
    },
  };
}

type AgentParts = Pick<Operator, 'inventory' | 'clusters' | 'keyring'>;

async function connectAgent(
  parts: AgentParts,
  instanceId: string,
  options: { localPort?: number; signal?: AbortSignal },
): Promise<AgentAccess> {
  const record = await findRecord(parts.inventory, instanceId);
  const token = (await parts.inventory.secrets(record.hash)).agentToken;
  if (record.state !== 'ready' || record.pod === null || token === undefined) {
    throw new WindlassError('handshake_failed', `The instance "${instanceId}" has no agent to talk to: it is ${record.state}.`, {
      hint:
        record.state === 'lost'
          ? '`windlass reconnect` takes it up again.'
          : '`windlass get` shows its state, `windlass explain` why.',
    });
  }
  const opened = await parts.keyring.decrypt(token, record.hash);
  const { openRecordedChannel } = await import('./jobs/agent-channel.ts');
  // An agentctl serves its instance at a port of its own.
  const podPort = record.agent?.port ?? agentPort;
  const channel = await openRecordedChannel(parts.clusters.get(record.cluster), record, { ...options, podPort });
  const { port, trouble } = channel;
  const client = agentClient(record, record.agent?.protocol ?? 'windlass', { port, token: opened, trouble });
  try {
    await ensureIdleAgent(parts.inventory, record, client, options.signal);
  } catch (error) {
    await channel.close();
    throw error;
  }
  return { client, url: `http://127.0.0.1:${port}`, token: opened, record, close: () => channel.close() };
}

async function findRecord(inventory: Inventory, instanceId: string): Promise<InstanceRecord> {
  const record = await inventory.read(instanceId);
  if (record !== undefined) return record;
  if ((await inventory.tombstone(instanceId)) !== undefined)
    throw new WindlassError('instance_gone', `The instance "${instanceId}" was torn down.`);
  throw new WindlassError('instance_not_found', `There is no instance "${instanceId}".`);
}

export interface WorkerOptions {
  readonly queues: readonly QueueName[];
  readonly concurrency?: number;
  /** Health and metrics on this port (0 = free); none when undefined. */
  readonly port?: number;
}

/** Starts consumers; everything that can be wrong with the configuration, Redis or the keys is found before the first job. */
export async function startWorker(loaded: LoadedConfig, options: WorkerOptions): Promise<WorkerHandle> {
  await refuseUnusable(loaded);
  return startJobs(await openParts(loaded), options);
}

async function refuseUnusable({ config, dir }: LoadedConfig): Promise<void> {
  const { checkClusterConfig } = await import('./kubernetes/clusters.ts');
  const { agentFileIssues } = await import('./jobs/agent-program.ts');
  const issues: Issue[] = [];
  for (const [name, cluster] of Object.entries(config.clusters)) issues.push(...(await checkClusterConfig(name, cluster, dir)));
  issues.push(...(await agentFileIssues(config, dir)));
  refuse('config_invalid', 'The configuration is not valid', issues);
}

/** What a worker has open before it takes a job. */
interface Parts extends JobParts {
  readonly base: Base;
  readonly queues: Queues;
  readonly redis: ReturnType<typeof createRedis>;
  close(): Promise<void>;
}
type JobParts = Pick<
  JobContext,
  'config' | 'dir' | 'inventory' | 'shelf' | 'clusters' | 'keyring' | 'recipes' | 'log' | 'jobState'
>;

async function openParts(loaded: LoadedConfig): Promise<Parts> {
  const { config, env, dir } = loaded;
  const { createClusters } = await import('./kubernetes/clusters.ts');
  const { createRecipes } = await import('./jobs/recipes.ts');
  const recipes = createRecipes(config, loaded.templates);
  const keyring = createKeyring(config.secrets, env, config.installation);
  const base = await openBase(loaded);
  const { inventory, shelf, log } = base;
  const queues = await base.queues();
  const { jobState } = await import('./producers/queue.ts');
  const redis = createRedis(config.redis, env, dir, 'bullmq');
  const clusters = createClusters(config.clusters, { installation: config.installation, dir, log });
  const close = async () => {
    await within(Promise.all([clusters.close(), base.close()]), 2 * closeMs);
    redis.disconnect();
  };
  try {
    await checkRedis(await connected(redis));
    await checkCanaries(keyring, shelf);
  } catch (error) {
    await close();
    throw error;
  }
  const ask = (job: JobRef) => jobState(queues, job);
  return { config, dir, inventory, shelf, clusters, keyring, recipes, log, jobState: ask, base, queues, redis, close };
}

async function startJobs(parts: Parts, options: WorkerOptions): Promise<WorkerHandle> {
  const { base, queues, redis, close, ...jobParts } = parts;
  const { config, inventory, shelf, clusters, keyring, recipes, log } = jobParts;
  const consuming = await import('./consumers/index.ts');
  const metrics = consuming.createMetrics({ queues, shelf });
  const takes = options.queues;
  const upkeep = consuming.startUpkeep({ config, inventory, clusters, keyring, recipes, shelf, queues, log, takes });
  await upkeep.first;
  const backpressure = consuming.startBackpressure(inventory, { enabled: config.backpressure.enabled, log });
  await backpressure.look();
  const context = { ...jobParts, pressed: backpressure.pressed, sweepDone: metrics.sweepDone };
  const wakeups = await consuming.startWakeups(context, queues);
  const losses = consuming.startLossWatch({ config, inventory, shelf, clusters, queues, log });
  const consumers = takes.map(
    (queue): Consumer =>
      consuming.startConsumer({
        queue,
        connection: redis,
        prefix: config.redis.prefix,
        installation: config.installation,
        concurrency: queue === 'sweep' ? 1 : (options.concurrency ?? config.worker.concurrency),
        name: base.holder,
        context,
      }),
  );
  const { port } = options;
  const health =
    port === undefined
      ? undefined
      : await consuming.startHealthServer({ port, host: config.http.host, queues, consumers, metrics });
  log.info({ queues: takes, worker: base.holder, port: health?.port }, 'worker started');
  return {
    port: health?.port,
    async close() {
      const graceMs = config.worker.drainSeconds * 1000;
      await Promise.all(consumers.map((consumer) => consumer.drain(graceMs)));
      backpressure.stop();
      await within(Promise.all([upkeep.stop(), wakeups.stop(), losses.stop(), health?.close()]), closeMs);
      await close();
      log.info({ worker: base.holder }, 'worker stopped');
    },
  };
}
