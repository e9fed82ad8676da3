import type { V1ContainerState, V1Pod } from '@kubernetes/client-node';
import type { Command } from 'commander';
import { eventWords } from '../dashboard/words.ts';
import { asWindlassError, type ErrorBody, errorBody } from '../errors.ts';
import type { InstanceEvent, InstanceRecord } from '../inventory/types.ts';
import type { Operator } from '../main.ts';
import { claimName, podName } from '../names.ts';
import { checkedId, verb } from './context.ts';
import { existing } from './follow.ts';
import { instanceText } from './instance-text.ts';
import { clean, logOf } from './output.ts';

export function explain(program: Command): void {
  const command = program
    .command('explain <id>')
    .alias('describe')
    .description('everything known of an instance: where it is, what it waits for, why it failed');
  verb(command, async (context, _options, [id]) => {
    const instanceId = await checkedId(id);
    const { toInstance } = await import('../inventory/view.ts');
    await context.withOperator(async (operator) => {
      const record = await existing(operator.inventory, instanceId);
      const [lease, recent, jobs, objects] = await Promise.all([
        operator.inventory.leaseHolder(record.hash),
        lastEvents(operator, instanceId),
        openJobs(operator, record),
        clusterObjects(operator, record),
      ]);
      const story = {
        lease: lease ? { ...lease, fence: record.fence } : { holder: null, ttlMs: 0, fence: record.fence },
        jobs,
        objects,
        recent,
      };
      await context.out.show({
        document: { instance: toInstance(record), evidence: record.failure?.evidence ?? null, creates: record.creates, ...story },
        text: () => `${instanceText(record)}\n${storyText(record, story)}`,
        names: [instanceId],
      });
    });
  });
}

const shownEvents = 20;

async function lastEvents(operator: Operator, instanceId: string): Promise<InstanceEvent[]> {
  const kept = operator.loaded.config.retention.eventsPerInstance;
  const all = await operator.inventory.events(instanceId, 0, kept + 1);
  return all.slice(-shownEvents);
}

interface OpenJob {
  readonly queue: string;
  readonly jobId: string;
  readonly state: string;
  readonly attemptsMade: number;
  readonly startedTimes: number;
  readonly failedReason: string | null;
}

/** Jobs are named after the instance, its generation and its run, so that they are found without walking the queues. */
async function openJobs(operator: Operator, record: InstanceRecord): Promise<OpenJob[]> {
  const found: OpenJob[] = [];
  for (const queue of ['launch', 'teardown'] as const) {
    const jobId = `${queue}-${record.hash}-${record.generation}-${record.run}`;
    const job = await (await operator.producer.queues())[queue].getJob(jobId);
    if (!job) continue;
    const { attemptsMade, attemptsStarted, failedReason } = job;
    found.push({
      queue,
      jobId,
      state: await job.getState(),
      attemptsMade,
      startedTimes: attemptsStarted,
      failedReason: failedReason ?? null,
    });
  }
  return found;
}

interface Objects {
  readonly pod?: PodFacts | null;
  readonly claim?: { readonly name: string; readonly uid: string; readonly phase: string; readonly deleting: boolean } | null;
  readonly events?: readonly {
    readonly type: string;
    readonly reason: string;
    readonly message: string;
    readonly count: number;
  }[];
  readonly error?: ErrorBody;
}
interface PodFacts {
  readonly name: string;
  readonly uid: string;
  readonly phase: string;
  readonly deleting: boolean;
  /** Conditions that are not true, with their reasons. */
  readonly conditions: readonly string[];
  readonly containers: readonly {
    readonly name: string;
    readonly ready: boolean;
    readonly restarts: number;
    readonly state: string;
  }[];
}

/** An unreachable cluster is an answer too: what Redis knows is shown all the same. */
async function clusterObjects(operator: Operator, record: InstanceRecord): Promise<Objects> {
  try {
    const cluster = operator.clusters.get(record.cluster);
    const [pod, claim] = await Promise.all([
      cluster.read('pods', podName(record.hash)),
      cluster.read('persistentvolumeclaims', claimName(record.hash)),
    ]);
    const events = pod?.metadata?.uid ? await cluster.events(pod.metadata.uid) : [];
    return {
      pod: pod ? podFacts(pod) : null,
      claim: claim ? { ...named(claim), phase: claim.status?.phase ?? '' } : null,
      events: events.map(({ type, reason, message, count }) => ({
        type: type ?? '',
        reason: reason ?? '',
        message: message ?? '',
        count: count ?? 1,
      })),
    };
  } catch (error) {
    return { error: errorBody(asWindlassError(error)) };
  }
}

const named = ({ metadata }: { metadata?: V1Pod['metadata'] }) => ({
  name: metadata?.name ?? '',
  uid: metadata?.uid ?? '',
  deleting: metadata?.deletionTimestamp !== undefined,
});

function podFacts(pod: V1Pod): PodFacts {
  const reasons = (state: V1ContainerState | undefined) =>
    Object.entries(state ?? {}).map(([name, detail]) => [name, (detail as { reason?: string }).reason].filter(Boolean).join(' '));
  return {
    ...named(pod),
    phase: pod.status?.phase ?? '',
    conditions: (pod.status?.conditions ?? [])
      .filter(({ status }) => status !== 'True')
      .map(({ type, reason, message }) => [type, reason, message].filter(Boolean).join(': ')),
    containers: (pod.status?.containerStatuses ?? []).map(({ name, ready, restartCount, state }) => ({
      name,
      ready,
      restarts: restartCount,
      state: reasons(state).join(),
    })),
  };
}

interface Story {
  readonly lease: { readonly holder: string | null; readonly ttlMs: number; readonly fence: string };
  readonly jobs: readonly OpenJob[];
  readonly objects: Objects;
  readonly recent: readonly InstanceEvent[];
}

function storyText(record: InstanceRecord, { lease, jobs, objects, recent }: Story): string {
  const jobLine = (job: OpenJob) =>
    `  ${job.jobId}: ${job.state}, ${job.startedTimes} starts${job.failedReason ? `, ${job.failedReason}` : ''}`;
  return [
    `Lease:      ${lease.holder ? `${lease.holder} for ${lease.ttlMs} ms more` : 'nobody'} (fence ${lease.fence})`,
    'Jobs:',
    ...(jobs.length === 0 ? ['  none'] : jobs.map(jobLine)),
    'In the cluster:',
    ...objectLines(objects),
    ...(record.failure ? ['Evidence:', ...evidenceLines(record.failure.evidence)] : []),
    'Last events:',
    ...recent.map((event) => `  ${event.at}  ${eventWords(event)}`),
  ]
    .map(clean)
    .join('\n');
}

/** What a program said is read as it said it. */
function evidenceLines(evidence: Readonly<Record<string, unknown>>): string[] {
  const log = logOf(evidence);
  const rest = log.length === 0 ? evidence : { ...evidence, log: `${log.length} lines, below` };
  return [...JSON.stringify(rest, null, 2).split('\n'), ...log.map((line) => `| ${line}`)].map((line) => `  ${line}`);
}

function objectLines({ pod, claim, events, error }: Objects): string[] {
  if (error) return [`  cannot be read: ${error.message}`];
  const going = (object: { readonly deleting: boolean }) => (object.deleting ? ', being deleted' : '');
  return [
    pod ? `  Pod ${pod.name} (uid ${pod.uid}): ${pod.phase}${going(pod)}` : '  no Pod',
    ...(pod?.containers ?? []).map(
      ({ name, ready, restarts, state }) => `    container ${name}: ${state}${ready ? ', ready' : ''}, ${restarts} restarts`,
    ),
    ...(pod?.conditions ?? []).map((condition) => `    not ${condition}`),
    claim ? `  Claim ${claim.name} (uid ${claim.uid}): ${claim.phase}${going(claim)}` : '  no claim of its own',
    ...(events ?? []).map(
      (event) => `  ${event.type} ${event.reason}${event.count > 1 ? ` (${event.count} times)` : ''}: ${event.message}`,
    ),
  ];
}
