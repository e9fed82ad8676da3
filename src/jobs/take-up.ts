import type { V1Pod } from '@kubernetes/client-node';
import { poll } from '../clock.ts';
import { WindlassError } from '../errors.ts';
import type { InstanceRecord, PodRecord } from '../inventory/types.ts';
import { mainEnd } from '../kubernetes/pod-end.ts';
import { goneLoss, type PodLoss, podLoss } from '../kubernetes/pod-loss.ts';
import { createIntent } from './create-intent.ts';
import { lossWrite } from './loss.ts';
import type { Running } from './pod-judge.ts';
import { derivedName } from './remove.ts';
import { checkpointOf, podKept, podRestarted } from './resume.ts';
import { retainClaim } from './retain.ts';
import type { StageContext, StageOutcome } from './stage.ts';

/** How long a run looks on while the remains of a lost Pod go, before it hands its slot back. */
const lookOnMs = 3000;

type Wait = Extract<StageOutcome, { kind: 'wait' }>;

/**
 * Finds the exact Pod that the record names. When it lives, the run goes on with it; when it is lost, everything is made
 * ready for a new one on the same claim, or the run ends as `unrecoverable`. A lost Pod and its replacement never share
 * the volume: the replacement is only made once the lost one is really gone (C28). The claim is marked first: until there is
 * another Pod, it would look like the rest of a removal to a recovery.
 */
export async function takeUp(context: StageContext): Promise<Wait | undefined> {
  const recorded = context.record().pod;
  if (recorded !== null) {
    const found = await readExact(context, recorded);
    const loss = lossOf(context, recorded, found);
    if (loss === undefined) return undefined;
    await retainClaim(context.cluster, context.record(), context.lease.assertHeld, context.stageSignal);
    if (context.record().state === 'ready') await declareLost(context, loss);
    assertRebuildable(context);
    const waiting = found === undefined ? undefined : await removeRemains(context, found, loss);
    if (waiting !== undefined) return waiting;
  } else assertRebuildable(context);
  await beginRebuild(context);
  return undefined;
}

async function readExact(context: StageContext, recorded: PodRecord): Promise<V1Pod | undefined> {
  const name = derivedName(context.record(), 'pods');
  const pod = await context.cluster.read('pods', name, { signal: context.stageSignal, instance: name });
  return pod?.metadata?.uid === recorded.uid ? pod : undefined;
}

function lossOf(context: StageContext, recorded: PodRecord, found: V1Pod | undefined): PodLoss | undefined {
  // What has run to its end is there as it was left.
  if (found !== undefined && mainEnd(found, context.profile.mainContainer) !== undefined) return undefined;
  const events = context.cluster.pods.eventsOf(recorded.uid);
  return found === undefined ? goneLoss(recorded, events) : podLoss(found, context.profile.mainContainer, events);
}

/** Two writes, so that the event is there and a rollback returns to `lost`: from `ready` there is no way to `launching`. */
async function declareLost(context: StageContext, loss: PodLoss): Promise<void> {
  await context.save(lossWrite(context.record(), loss, context.now()));
  await context.save({ state: 'launching', set: { before: 'lost' } });
}

function assertRebuildable(context: StageContext): void {
  const record = context.record();
  const { maxRebuilds } = context.config.recovery;
  if ((record.missing ?? []).length > 0) {
    throw new WindlassError('unrecoverable', 'The Pod is gone, and what the launch asked for was lost with the inventory.', {
      evidence: { ...lostPod(record), missing: record.missing },
      hint: 'Send the launch again: the workspace is kept.',
    });
  }
  if (context.profile.workspace.mode === 'empty_dir') {
    throw new WindlassError('unrecoverable', 'The Pod is gone, and its workspace (empty_dir) went with it.', {
      evidence: lostPod(record),
    });
  }
  if (record.rebuilds >= maxRebuilds) {
    throw new WindlassError('unrecoverable', `The Pod is gone, and was built again ${record.rebuilds} times already.`, {
      evidence: { ...lostPod(record), rebuilds: record.rebuilds, maxRebuilds },
      hint: 'Tear it down with --keep-workspace and launch it again, or raise recovery.maxRebuilds.',
    });
  }
}

const lostPod = (record: InstanceRecord) => (record.pod === null ? {} : { pod: record.pod.name, uid: record.pod.uid });

async function removeRemains(context: StageContext, found: V1Pod, loss: PodLoss): Promise<Wait | undefined> {
  const name = derivedName(context.record(), 'pods');
  const uid = found.metadata?.uid ?? '';
  const force = loss.code === 'node_lost' && context.config.recovery.forceDeleteOnNodeLoss;
  if (force || found.metadata?.deletionTimestamp === undefined) {
    context.lease.assertHeld();
    const options = { uid, signal: context.stageSignal, instance: name };
    await context.cluster.remove('pods', name, force ? { ...options, graceSeconds: 0 } : options);
  }
  const gone = async () =>
    (await context.cluster.read('pods', name, { signal: AbortSignal.timeout(10_000) }))?.metadata?.uid !== uid;
  if (await poll(gone, { everyMs: 100, forMs: lookOnMs, signal: context.stageSignal })) return undefined;
  const why = loss.code === 'node_lost' ? ' Its node does not answer: it may still write to the volume.' : '';
  return {
    kind: 'wait',
    reason: 'object_deleting',
    message: `The lost Pod is still being deleted.${why}`,
    delayMs: 2000,
    ready: gone,
  };
}

/** A new create intent, and a new identity for the agent: what the lost Pod knew opens nothing any more. */
async function beginRebuild(context: StageContext): Promise<void> {
  const record = context.record();
  const intent = { ...createIntent(context, record, 'pods'), run: record.run };
  // The new Pod runs the request's command again: its end is another one.
  const set = { pod: null, agent: null, restartCount: 0, exitCode: null, creates: { ...record.creates, pods: intent } };
  await context.save({ set, secrets: { agentToken: null, agentNonce: null } });
}

/**
 * Notes whether the container that runs is the one that was worked with last. Only a proven restart lets the agent be
 * set up and shaken hands with again; once noted it stays so for this run, whoever goes on with it.
 */
export async function noteFound(context: StageContext, recorded: PodRecord, verdict: Running): Promise<void> {
  const record = context.record();
  const { agent, restartCount } = record;
  const silent = context.profile.agent.delivery !== 'none' && agent?.state !== 'healthy';
  const anew = verdict.containerId !== recorded.main?.id || verdict.restartCount !== restartCount;
  const restarted = silent || anew || checkpointOf(record, 'pod') === podRestarted;
  const set = {
    ...runningSet(context, recorded, verdict),
    ...(agent !== null && restarted ? { agent: { ...agent, state: 'idle' } } : {}),
  };
  await context.save({ set }, restarted ? podRestarted : podKept);
}

export function runningSet(context: StageContext, recorded: PodRecord, verdict: Running): Partial<InstanceRecord> {
  const main = { name: context.profile.mainContainer, id: verdict.containerId };
  const pod = { ...recorded, node: verdict.node, ip: verdict.ip, main };
  const finished = verdict.finish === undefined ? {} : { exitCode: verdict.finish.exitCode };
  return { pod, restartCount: verdict.restartCount, ...finished };
}
