import type { V1Pod } from '@kubernetes/client-node';
import type { Config } from '../config/schema.ts';
import { asWindlassError } from '../errors.ts';
import type { Inventory, Lease, WriteOptions } from '../inventory/port.ts';
import type { InstanceRecord, PodRecord } from '../inventory/types.ts';
import { mainEnd, type PodFinish } from '../kubernetes/pod-end.ts';
import { goneLoss, isOver, type PodLoss, podLoss, startOf } from '../kubernetes/pod-loss.ts';
import type { Cluster } from '../kubernetes/port.ts';
import { podName } from '../names.ts';
import { instanceKey, type Log } from './context.ts';
import { finishWrite, isUntouchedLoss, lossWrite } from './loss.ts';
import { retainClaim } from './retain.ts';

/** What a Pod says about the record that names it. */
export type Finding =
  | { readonly kind: 'fine' }
  | { readonly kind: 'lost'; readonly loss: PodLoss }
  | { readonly kind: 'restarted'; readonly id: string; readonly restarts: number }
  | { readonly kind: 'finished'; readonly finish: PodFinish };

/** settled = nothing more to find out now · lost = written, and no run has tried to build it again yet · again = somebody is at work on it, or the cluster did not answer. */
export type Look = 'settled' | 'lost' | 'again';

/** Pure, so that every worker finds the same. `pod` is what has the record's UID; undefined = it was looked for and is gone. */
export function findingOf(
  record: InstanceRecord,
  recorded: PodRecord,
  pod: V1Pod | undefined,
  events: Parameters<typeof podLoss>[2],
): Finding {
  // Its result is known: what becomes of the Pod now (clusters collect finished ones) changes nothing.
  // Not so beside an agent, where the end of the request's command is not the end of the instance.
  if (record.exitCode !== null && record.agent === null) return { kind: 'fine' };
  if (pod === undefined) return { kind: 'lost', loss: goneLoss(recorded, events) };
  const finish = mainEnd(pod, recorded.main?.name ?? '');
  if (finish !== undefined) return { kind: 'finished', finish };
  const loss = podLoss(pod, recorded.main?.name ?? '', events);
  if (loss !== undefined) return { kind: 'lost', loss };
  if (recorded.main === undefined) return { kind: 'fine' };
  const { id, restarts } = startOf(pod, recorded.main.name);
  return id === '' || id === recorded.main.id ? { kind: 'fine' } : { kind: 'restarted', id, restarts };
}

interface Parts {
  readonly inventory: Inventory;
  readonly log: Log;
  readonly config: Pick<Config, 'retention'>;
}

/**
 * Compares one record with its Pod and writes down what became of it. Only a `ready` record is judged: of any other state a
 * job takes care, which looks itself. A launch that is about to be ready is looked at again, for its job may have looked
 * at the Pod for the last time just before the Pod was lost.
 */
export async function lookAfter(parts: Parts, cluster: Cluster, hash: string): Promise<Look> {
  const record = await parts.inventory.readByHash(hash);
  const recorded = record?.pod;
  if (record === undefined || !recorded || record.cluster !== cluster.name || record.namespace !== cluster.namespace)
    return 'settled';
  if (record.state === 'launching') return looksAlive(cluster, recorded) ? 'settled' : 'again';
  // Written by somebody who may have died before anything was done about it.
  if (record.state === 'lost') return isUntouchedLoss(record) ? 'lost' : 'settled';
  if (record.state !== 'ready') return 'settled';
  const finding = await find(cluster, record, recorded, cluster.pods.get(podName(record.hash)));
  if (finding.kind === 'fine') return 'settled';
  return writeDown(parts, cluster, record);
}

function looksAlive(cluster: Cluster, recorded: PodRecord): boolean {
  const pod = cluster.pods.get(recorded.name);
  return pod?.metadata?.uid === recorded.uid && !isOver(pod);
}

/** The watch may lag behind a Pod that was just made: that one is gone is only believed from a GET (I20). */
async function find(cluster: Cluster, record: InstanceRecord, recorded: PodRecord, cached?: V1Pod): Promise<Finding> {
  const name = podName(record.hash);
  const found =
    cached?.metadata?.uid === recorded.uid
      ? cached
      : await cluster.read('pods', name, { signal: AbortSignal.timeout(10_000), instance: name });
  const exact = found?.metadata?.uid === recorded.uid ? found : undefined;
  return findingOf(record, recorded, exact, cluster.pods.eventsOf(recorded.uid));
}

/**
 * Under the instance's lease and on what is read again under it, the Pod too: of many workers that see an end, one writes it,
 * and a watch that lags tells nothing of a container that has been followed by another.
 */
async function writeDown({ inventory, log, config }: Parts, cluster: Cluster, seen: InstanceRecord): Promise<Look> {
  const { finishedSeconds } = config.retention;
  const lease = await inventory.tryLease(seen.hash);
  if (lease === undefined) return 'again';
  try {
    const record = await inventory.readByHash(seen.hash);
    if (record?.state !== 'ready' || record.pod === null || record.pod.uid !== seen.pod?.uid) return 'settled';
    const finding = await find(cluster, record, record.pod);
    if (finding.kind === 'fine') return 'settled';
    if (finding.kind === 'lost') await keepWorkspace(log, cluster, lease, record);
    const write = writeOf(record, record.pod, finding, { now: await inventory.now(), finishedSeconds });
    await inventory.write(lease, { ...write, release: true, wake: [instanceKey(record)] });
    if (finding.kind !== 'lost') return 'settled';
    log.warn({ instance: record.hash, code: finding.loss.code }, 'instance lost');
    return 'lost';
  } catch (error) {
    const { code } = asWindlassError(error);
    if (code === 'superseded' || code === 'lease_lost') return 'again';
    throw error;
  } finally {
    await lease.release();
  }
}

/** Before `lost` is written. A claim that could not be marked is marked by the next `ghosts` sweep; the loss is told anyway. */
async function keepWorkspace(log: Log, cluster: Cluster, lease: Lease, record: InstanceRecord): Promise<void> {
  try {
    await retainClaim(cluster, record, lease.assertHeld, AbortSignal.any([lease.signal, AbortSignal.timeout(10_000)]));
  } catch (error) {
    if (!lease.held()) throw error;
    log.warn({ instance: record.hash, code: asWindlassError(error).code }, 'the claim of a lost instance is not marked yet');
  }
}

function writeOf(
  record: InstanceRecord,
  pod: PodRecord,
  finding: Exclude<Finding, { kind: 'fine' }>,
  times: { readonly now: number; readonly finishedSeconds: number },
): WriteOptions {
  if (finding.kind === 'lost') return lossWrite(record, finding.loss, times.now);
  return finding.kind === 'finished' ? finishWrite(record, finding.finish, times) : restartWrite(record, pod, finding);
}

/** An agent whose container was started anew is idle, which is no failure: whoever uses it next sets it up again. */
function restartWrite(record: InstanceRecord, pod: PodRecord, { id, restarts }: { id: string; restarts: number }): WriteOptions {
  const agent = record.agent === null ? null : { ...record.agent, state: 'idle' };
  return { set: { restartCount: restarts, agent, pod: { ...pod, main: { name: pod.main?.name ?? '', id } } } };
}
