import type { V1ObjectMeta } from '@kubernetes/client-node';
import type { ProfileConfig } from '../config/schema.ts';
import { asWindlassError, WindlassError } from '../errors.ts';
import type { Lease } from '../inventory/port.ts';
import type { AgentRecord, InstanceRecord } from '../inventory/types.ts';
import { createNonce, type Identity, identityOn, keys } from '../kubernetes/ownership.ts';
import type { Cluster } from '../kubernetes/port.ts';
import { claimName, instanceHash, podName } from '../names.ts';
import { rememberedTransport, type Transport, transportsOf } from './agent-channel.ts';
import type { JobContext } from './context.ts';
import { adoptEpoch, checkEpoch } from './epoch.ts';
import { planOf } from './plan.ts';
import { openSnapshot } from './recipes.ts';
import { otherClaimOf, rebuildRecord, snapshotOf } from './recover-record.ts';
import { type FirstLook, generationOf, judgeLost, judgeSilent, type LostObjects, type LostState } from './recover-verdict.ts';
import { type Rekeyed, type RunningPod, rekeyAgent } from './rekey.ts';
import { recoverSnapshot } from './snapshots.ts';
import { hashOf, type OwnedKind, ownedKinds } from './sweeps/owned.ts';

export type RecoverContext = Pick<JobContext, 'config' | 'inventory' | 'shelf' | 'clusters' | 'keyring' | 'log' | 'signal'>;

/** What became of one name. `state` is that of its record; `rule` says why, and what is not recovered has the reason there. */
export interface RecoverItem {
  readonly outcome: 'recovered' | 'skipped' | 'failed';
  readonly cluster: string;
  readonly instanceId: string | null;
  readonly name: string;
  readonly rule: string;
  readonly state?: string;
  readonly message?: string;
}

export interface RecoverReport {
  readonly dryRun: boolean;
  readonly recovered: number;
  readonly skipped: number;
  readonly failed: number;
  readonly items: readonly RecoverItem[];
}

/** Instances at a time: each is an exec into its Pod. */
const concurrency = 16;

/**
 * Rebuilds the records of everything that exists and that the inventory does not know (design §7). Patch first, then the
 * record: a sweeper that judged the object before fails at its delete. The epoch is right again only when nothing failed.
 */
export async function recover(context: RecoverContext, options: { readonly dryRun: boolean }): Promise<RecoverReport> {
  const lease = await context.inventory.tryLease('recover');
  if (lease === undefined) throw new WindlassError('lease_held', 'Another recovery is running.');
  const items: RecoverItem[] = [];
  try {
    const signal = AbortSignal.any([context.signal, lease.signal]);
    for (const name of context.clusters.names())
      items.push(...(await recoverCluster({ ...context, signal }, context.clusters.get(name), options.dryRun)));
  } finally {
    await lease.release();
  }
  const count = (outcome: RecoverItem['outcome']) => items.filter((item) => item.outcome === outcome).length;
  return { dryRun: options.dryRun, recovered: count('recovered'), skipped: count('skipped'), failed: count('failed'), items };
}

async function recoverCluster(context: RecoverContext, cluster: Cluster, dryRun: boolean): Promise<RecoverItem[]> {
  const { installation } = context.config;
  try {
    if ((await checkEpoch(cluster, context.shelf, installation, context.signal)) === 'other') {
      throw new WindlassError(
        'inventory_lost',
        `Another cluster answers as "${cluster.name}" than before; nothing is recovered from it.`,
      );
    }
    const found = await findInstances(context, cluster);
    const items = await inParallel([...found], (entry) => recoverName(context, cluster, entry, dryRun));
    if (!dryRun && items.every((item) => item.outcome !== 'failed'))
      await adoptEpoch(cluster, context.shelf, installation, context.signal);
    return items;
  } catch (error) {
    context.signal.throwIfAborted();
    return [{ outcome: 'failed', cluster: cluster.name, instanceId: null, name: '', ...reasonOf(error) }];
  }
}

const reasonOf = (error: unknown): { rule: string; message: string } => {
  const { code, message } = asWindlassError(error);
  return { rule: code, message };
};

type Found = Partial<Record<OwnedKind, V1ObjectMeta>>;

async function findInstances(context: RecoverContext, cluster: Cluster): Promise<Map<string, Found>> {
  const found = new Map<string, Found>();
  for (const kind of ownedKinds) {
    for await (const page of cluster.listMetadata(kind, `${keys.installation}=${context.config.installation}`, {
      signal: context.signal,
    })) {
      for (const meta of page.items) {
        const hash = hashOf(meta.name ?? '', kind);
        if (hash !== undefined) found.set(hash, { ...found.get(hash), [kind]: meta });
      }
    }
  }
  return found;
}

async function inParallel<T, R>(things: readonly T[], work: (thing: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  const queue = [...things];
  const lane = async () => {
    for (let next = queue.shift(); next !== undefined; next = queue.shift()) results.push(await work(next));
  };
  await Promise.all(Array.from({ length: concurrency }, lane));
  return results;
}

async function recoverName(
  context: RecoverContext,
  cluster: Cluster,
  [hash, found]: [string, Found],
  dryRun: boolean,
): Promise<RecoverItem> {
  const identity = identityOn(found.pods ?? found.persistentvolumeclaims ?? {});
  const about = { cluster: cluster.name, instanceId: identity?.instanceId ?? null, name: podName(hash) };
  try {
    const reason = identity === undefined ? 'not_made_by_us' : await reasonToSkip(context, cluster, identity, found);
    if (identity === undefined || reason !== undefined) return { ...about, outcome: 'skipped', rule: reason ?? 'not_made_by_us' };
    return { ...about, ...(await recoverInstance(context, cluster, identity, dryRun)) };
  } catch (error) {
    context.signal.throwIfAborted();
    context.log.warn(
      { instance: hash, cluster: cluster.name, code: asWindlassError(error).code, err: error },
      'instance not recovered',
    );
    return { ...about, outcome: 'failed', ...reasonOf(error) };
  }
}

/** Only what our own nonce marks is believed: anybody may write labels. */
async function reasonToSkip(
  context: RecoverContext,
  cluster: Cluster,
  identity: Identity,
  found: Found,
): Promise<string | undefined> {
  const { installation } = context.config;
  if (instanceHash(installation, identity.instanceId) !== identity.hash) return 'not_named_by_us';
  if (identity.cluster !== cluster.name && context.clusters.names().includes(identity.cluster)) return 'of_another_cluster';
  for (const kind of ownedKinds) {
    const meta = found[kind];
    if (meta !== undefined && !isNonceOurs(context, identity.instanceId, kind, meta)) return 'nonce_not_ours';
  }
  const generation = Math.max(...ownedKinds.map((kind) => generationOf(found[kind])));
  const record = await context.inventory.readByHash(identity.hash);
  if (record !== undefined && knows(record, generation)) return 'recorded';
  const tombstone = record === undefined ? await context.inventory.tombstoneByHash(identity.hash) : undefined;
  return tombstone !== undefined && tombstone.generation >= generation ? 'of_a_gone_instance' : undefined;
}

/** A record that waits for its turn knows nothing yet; every other one does, up to its generation. */
const knows = (record: InstanceRecord, generation: number): boolean =>
  record.state !== 'requested' && record.generation >= generation;

function isNonceOurs(context: RecoverContext, instanceId: string, kind: OwnedKind, meta: V1ObjectMeta): boolean {
  const { installation } = context.config;
  const parts = { installation, instanceId, generation: generationOf(meta), kind };
  return context.keyring.nonceKeys().some((key) => createNonce(key, parts) === meta.annotations?.[keys.nonce]);
}

type Outcome = Pick<RecoverItem, 'outcome' | 'rule' | 'state'>;

async function recoverInstance(context: RecoverContext, cluster: Cluster, identity: Identity, dryRun: boolean): Promise<Outcome> {
  const lease = await context.inventory.tryLease(identity.hash);
  if (lease === undefined) throw new WindlassError('lease_held', 'Somebody works on this instance right now.');
  try {
    const objects = await readObjects(context, cluster, identity);
    const found = metadataOf(objects);
    if (found.pods === undefined && found.persistentvolumeclaims === undefined) return { outcome: 'skipped', rule: 'gone' };
    // Judged again on what is read under the lease: by now another recovery may have given the agent a new token, which a
    // second one would take from its record, and what has the name may be somebody else's.
    const reason = await reasonToSkip(context, cluster, identity, found);
    if (reason !== undefined) return { outcome: 'skipped', rule: reason };
    const state = judgeLost(objects);
    if (dryRun) return { outcome: 'recovered', rule: state.rule, state: state.kind === 'ask' ? 'ready' : state.kind };
    return await putBack(context, cluster, identity, lease, objects, state);
  } finally {
    await lease.release();
  }
}

const metadataOf = ({ pod, claim }: LostObjects): Found => ({
  ...(pod?.metadata === undefined ? {} : { pods: pod.metadata }),
  ...(claim?.metadata === undefined ? {} : { persistentvolumeclaims: claim.metadata }),
});

async function readObjects({ config, signal }: RecoverContext, cluster: Cluster, identity: Identity): Promise<LostObjects> {
  const [pod, claim] = await Promise.all([
    cluster.read('pods', podName(identity.hash), { signal, instance: identity.hash }),
    cluster.read('persistentvolumeclaims', claimName(identity.hash), { signal, instance: identity.hash }),
  ]);
  const other = otherClaimOf(pod, identity.hash);
  const otherClaim = other === undefined ? undefined : await cluster.read('persistentvolumeclaims', other, { signal });
  const configured = config.profiles[identity.profile]?.mainContainer;
  const names = pod?.spec?.containers.map((container) => container.name) ?? [];
  return {
    pod,
    claim,
    otherClaim,
    mainContainer: configured !== undefined && names.includes(configured) ? configured : (names[0] ?? ''),
  };
}

async function putBack(
  context: RecoverContext,
  cluster: Cluster,
  identity: Identity,
  lease: Lease,
  objects: LostObjects,
  found: FirstLook,
): Promise<Outcome> {
  await markRecovered(cluster, lease, objects, context.signal);
  const { instanceId, hash } = identity;
  // What runs in the Pod is what its launch was accepted with: its profile may have been changed since.
  const recipe = await recoverSnapshot(context, cluster, snapshotOf(objects), context.signal);
  const profile = recipe === undefined ? context.config.profiles[identity.profile] : openSnapshot(recipe).profile;
  const running = {
    cluster,
    pod: podName(hash),
    container: objects.mainContainer,
    ip: objects.pod?.status?.podIP ?? '',
    instanceId,
    hash,
    protocol: profile?.agent.protocol ?? 'windlass',
    transport: await likelyTransport(context, cluster, objects, profile),
    signal: context.signal,
  };
  const rekeyed = found.kind === 'ask' ? await rekeyAgent(running) : undefined;
  const silent = found.kind === 'ask' && rekeyed === undefined;
  const state: LostState = silent ? judgeSilent(objects) : found.kind === 'ask' ? { kind: 'ready', rule: found.rule } : found;
  const record = rebuildRecord({
    ...objects,
    ...(rekeyed?.pod === undefined ? {} : { pod: rekeyed.pod }),
    config: context.config,
    cluster,
    identity,
    state,
    now: await context.inventory.now(),
    agent: rekeyed === undefined ? null : agentOf(running, rekeyed),
    stages: profile === undefined ? ['workspace', 'pod', 'ready'] : planOf(profile).map((stage) => stage.name),
    secrets: await secretsOf(context, hash, rekeyed),
  });
  // Without its recipe a later launch takes today's.
  const fields = { ...record.fields, ...(recipe === undefined ? { snapshot: '' } : {}) };
  const answer = await context.inventory.recover(lease, { ...record, fields });
  if (answer === 'known') return { outcome: 'skipped', rule: 'recorded' };
  context.log.info({ instance: identity.hash, cluster: cluster.name, state: state.kind, rule: state.rule }, 'instance recovered');
  return { outcome: 'recovered', rule: state.rule, state: state.kind };
}

function agentOf({ transport, protocol }: RunningPod, { id, port }: Rekeyed): AgentRecord {
  return { id, port, transport, state: 'healthy', ...(protocol === 'agentctl' ? { protocol } : {}) };
}

async function secretsOf({ keyring }: RecoverContext, hash: string, rekeyed: Rekeyed | undefined) {
  if (rekeyed === undefined) return {};
  const { token, nonce } = rekeyed;
  const agentToken = await keyring.encrypt(token, hash);
  return nonce === undefined ? { agentToken } : { agentToken, agentNonce: await keyring.encrypt(nonce, hash) };
}

async function likelyTransport(
  { shelf }: RecoverContext,
  cluster: Cluster,
  { pod }: LostObjects,
  profile: ProfileConfig | undefined,
): Promise<Transport> {
  const remembered = await rememberedTransport(shelf, cluster.name, pod?.spec?.runtimeClassName ?? '');
  return (profile === undefined ? undefined : transportsOf(profile, undefined, remembered)[0]) ?? 'port_forward';
}

/** Changes the resourceVersion: a delete that an old sweep has on its way fails (I12). */
async function markRecovered(cluster: Cluster, lease: Lease, { pod, claim }: LostObjects, signal: AbortSignal): Promise<void> {
  const annotations = { [keys.recovered]: new Date().toISOString() };
  for (const [kind, object] of [
    ['pods', pod],
    ['persistentvolumeclaims', claim],
  ] as const) {
    const meta = object?.metadata;
    if (meta?.uid === undefined) continue;
    lease.assertHeld();
    await cluster.patch(kind, meta.name ?? '', { metadata: { uid: meta.uid, annotations } }, { signal });
  }
}
