import type { Command } from 'commander';
import { eventWords } from '../dashboard/words.ts';
import { asWindlassError, errorBody } from '../errors.ts';
import type { InstanceEvent, InstanceRecord } from '../inventory/types.ts';
import type { Operator } from '../main.ts';
import { claimName, podName } from '../names.ts';
import { checkedId, verb } from './context.ts';
import { existing } from './follow.ts';
import { instanceText } from './instance-text.ts';
import { clean } from './output.ts';

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
    const job = await operator.producer.queues[queue].getJob(jobId);
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

type Objects = Readonly<Record<string, unknown>>;

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
      pod: pod && {
        name: pod.metadata?.name,
        uid: pod.metadata?.uid,
        phase: pod.status?.phase,
        deleting: pod.metadata?.deletionTimestamp ?? null,
        conditions: pod.status?.conditions?.map(({ type, status, reason, message }) => ({ type, status, reason, message })),
        containers: pod.status?.containerStatuses?.map(({ name, ready, restartCount, state }) => ({
          name,
          ready,
          restartCount,
          state,
        })),
      },
      claim: claim && {
        name: claim.metadata?.name,
        uid: claim.metadata?.uid,
        phase: claim.status?.phase,
        deleting: claim.metadata?.deletionTimestamp ?? null,
      },
      events: events.map(({ type, reason, message, count }) => ({ type, reason, message, count })),
    };
  } catch (error) {
    return { error: errorBody(asWindlassError(error)) };
  }
}

interface Story {
  readonly lease: { readonly holder: string | null; readonly ttlMs: number; readonly fence: string };
  readonly jobs: readonly OpenJob[];
  readonly objects: Objects;
  readonly recent: readonly InstanceEvent[];
}

function storyText(record: InstanceRecord, story: Story): string {
  const { lease, jobs, objects, recent } = story;
  const indent = (value: unknown) =>
    JSON.stringify(value, null, 2)
      .split('\n')
      .map((line) => `  ${clean(line)}`)
      .join('\n');
  return [
    `Lease:      ${lease.holder ? `${clean(lease.holder)} for ${lease.ttlMs} ms more` : 'nobody'} (fence ${lease.fence})`,
    'Jobs:',
    ...(jobs.length === 0
      ? ['  none']
      : jobs.map(
          (job) =>
            `  ${job.jobId}: ${job.state}, ${job.startedTimes} starts${job.failedReason ? `, ${clean(job.failedReason)}` : ''}`,
        )),
    'In the cluster:',
    indent(objects),
    ...(record.failure ? ['Evidence:', indent(record.failure.evidence)] : []),
    'Last events:',
    ...recent.map((event) => `  ${event.at}  ${clean(eventWords(event))}`),
  ].join('\n');
}
