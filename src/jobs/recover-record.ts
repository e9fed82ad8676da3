import type { Config } from '../config/schema.ts';
import type { RecoveredRecord } from '../inventory/port.ts';
import type { AgentRecord, CreateRecord, InstanceRecord, StageRecord, WorkspaceRecord } from '../inventory/types.ts';
import { type Identity, keys } from '../kubernetes/ownership.ts';
import { mainEnd } from '../kubernetes/pod-end.ts';
import type { Cluster } from '../kubernetes/port.ts';
import { volumes as volumeNames } from '../kubernetes/reserved.ts';
import { claimName } from '../names.ts';
import { launchAttempts } from './catalog.ts';
import { finishWrite } from './loss.ts';
import { generationOf, type LostObjects, type LostState } from './recover-verdict.ts';

/** What only the request knew: gone until the launch is sent again. */
export const missing: readonly string[] = ['env', 'prepare', 'secretEnv'];

/** At least so long from the recovery on, whatever the lifetime was: its user learns of it first. */
const leastMs = 3_600_000;

export interface Rebuild extends LostObjects {
  readonly config: Config;
  readonly cluster: Cluster;
  readonly identity: Identity;
  readonly state: LostState;
  /** Redis ms. */
  readonly now: number;
  readonly stages: readonly string[];
  /** As it was found to serve; null = it does not, or there is none. */
  readonly agent: AgentRecord | null;
  /** The agent's new token, and its nonce where that is known again; encrypted. */
  readonly secrets: RecoveredRecord['secrets'];
}

type Fields = RecoveredRecord['fields'];

/** An app that is through: nothing happens to its Pod any more from which anybody else would learn of its end. */
function finishOf(input: Rebuild): {
  readonly set: Pick<Fields, 'exitCode' | 'expiresAt'>;
  readonly events: RecoveredRecord['events'];
} {
  const { pod, mainContainer, state, config, now } = input;
  const finish = pod === undefined || state.kind !== 'ready' ? undefined : mainEnd(pod, mainContainer);
  if (finish === undefined) return { set: {}, events: [] };
  const { set = {}, events = [] } = finishWrite(times(input), finish, { now, finishedSeconds: config.retention.finishedSeconds });
  return { set, events };
}

/** The record as far as the objects tell it: pure, so that it can be looked at before anything is written. */
export function rebuildRecord(input: Rebuild): RecoveredRecord {
  const { identity, state, secrets } = input;
  const generation = Math.max(generationOf(input.pod?.metadata), generationOf(input.claim?.metadata));
  const finish = finishOf(input);
  return {
    instanceId: identity.instanceId,
    owner: identity.owner,
    fields: {
      ...placement(input),
      ...times(input),
      ...objects(input),
      ...ending(input, generation),
      ...finish.set,
      generation,
      run: 1,
      recovered: true,
      missing,
    },
    secrets,
    events: [{ type: 'recovered', rule: state.rule, state: state.kind, missing }, ...finish.events],
  };
}

/** The recipe that the objects were made from; '' = they do not tell. */
export const snapshotOf = ({ pod, claim }: Pick<LostObjects, 'pod' | 'claim'>): string =>
  pod?.metadata?.annotations?.[keys.snapshot] ?? claim?.metadata?.annotations?.[keys.snapshot] ?? '';

function placement(input: Rebuild) {
  const { config, cluster, identity } = input;
  // The label holds whichever of the two the launch named.
  const app =
    identity.app ??
    (config.profiles[identity.profile] === undefined && config.apps[identity.profile] !== undefined ? identity.profile : '');
  const profile = app === '' ? identity.profile : '';
  const { instanceId, owner, taskId, sessionId, environmentId } = identity;
  const ids = Object.fromEntries(Object.entries({ taskId, sessionId, environmentId }).filter(([, id]) => id !== undefined));
  const payload = { version: 1, instanceId, owner, cluster: cluster.name, ...(app === '' ? { profile } : { app }), ...ids };
  return {
    cluster: cluster.name,
    namespace: cluster.namespace,
    profile,
    app,
    snapshot: snapshotOf(input),
    request: { payload, requestHash: '' },
    limits: {},
    attemptsLeft: launchAttempts,
  };
}

function times({ config, identity, pod, claim, now, state }: Rebuild) {
  const lifetime = lifetimeOf(pod?.metadata?.annotations?.[keys.lifetime]) ?? { ...config.profiles[identity.profile]?.lifetime };
  const made = [pod, claim].map((object) => object?.metadata?.creationTimestamp).filter((time) => time !== undefined);
  const createdAt = Math.min(now, ...made.map((time) => new Date(time).getTime()));
  const maxSeconds = Number(lifetime.maxSeconds ?? config.limits.maxLifetimeSeconds);
  const until = state.kind === 'suspended' ? now + config.limits.suspendedSeconds * 1000 : createdAt + maxSeconds * 1000;
  return {
    lifetime,
    createdAt,
    readyAt: state.kind === 'ready' ? createdAt : 0,
    deadlineAt: now,
    expiresAt: Math.max(until, now + leastMs),
  };
}

function lifetimeOf(text: string | undefined): Record<string, unknown> | undefined {
  if (text === undefined) return undefined;
  try {
    return JSON.parse(text) as Record<string, unknown>;
  } catch {
    return undefined; // Somebody changed the annotation: the configuration decides.
  }
}

function objects(input: Rebuild): Pick<Fields, 'pod' | 'workspace' | 'creates' | 'agent' | 'restartCount'> {
  const { pod, claim, state, mainContainer } = input;
  const meta = pod?.metadata;
  const main = pod?.status?.containerStatuses?.find((status) => status.name === mainContainer);
  const recordedPod = {
    name: meta?.name ?? '',
    uid: meta?.uid ?? '',
    node: pod?.spec?.nodeName ?? '',
    ip: pod?.status?.podIP ?? '',
    createdByGeneration: generationOf(meta),
    ...(main?.containerID === undefined ? {} : { main: { name: mainContainer, id: main.containerID } }),
  };
  return {
    pod: pod === undefined ? null : recordedPod,
    workspace: workspaceOf(input),
    creates: { ...createOf('pods', pod?.metadata), ...createOf('persistentvolumeclaims', claim?.metadata) },
    agent: state.kind === 'ready' ? input.agent : null,
    restartCount: main?.restartCount ?? 0,
  };
}

function workspaceOf({ pod, claim, otherClaim, identity }: Rebuild): WorkspaceRecord {
  const own = claimName(identity.hash);
  if (claim !== undefined) {
    return {
      mode: 'managed_pvc',
      claimName: own,
      claimUid: claim.metadata?.uid ?? '',
      created: true,
      createdByGeneration: generationOf(claim.metadata),
    };
  }
  const claimUid = otherClaim?.metadata?.uid ?? '';
  const other = otherClaimOf(pod, identity.hash);
  if (other !== undefined) return { mode: 'existing_claim', claimName: other, claimUid, created: false, createdByGeneration: 0 };
  return { mode: 'empty_dir', claimName: '', claimUid: '', created: false, createdByGeneration: 0 };
}

/** The claim that a Pod has as its workspace and that is not its instance's own. */
export function otherClaimOf(pod: LostObjects['pod'], hash: string): string | undefined {
  const volume = pod?.spec?.volumes?.find(({ name }) => name === volumeNames.workspace);
  const name = volume?.persistentVolumeClaim?.claimName;
  return name === claimName(hash) ? undefined : name;
}

function createOf(kind: CreateRecord['kind'], meta: NonNullable<LostObjects['pod']>['metadata']): Record<string, CreateRecord> {
  if (meta?.uid === undefined) return {};
  const nonce = meta.annotations?.[keys.nonce] ?? '';
  const sentAt = new Date(meta.creationTimestamp ?? 0).getTime();
  return { [kind]: { kind, name: meta.name ?? '', nonce, generation: generationOf(meta), sentAt, uid: meta.uid, open: false } };
}

function ending(
  { state, stages, identity }: Rebuild,
  generation: number,
): Pick<Fields, 'state' | 'intent' | 'stages'> & Partial<InstanceRecord> {
  const done = stages.map((name): StageRecord => ({ name, state: 'done' }));
  if (state.kind !== 'removing') {
    if (state.kind === 'suspended') return { state: 'suspended', intent: 'suspended', stages: [] };
    return { state: state.kind, intent: 'present', stages: state.kind === 'ready' ? done : [] };
  }
  const { keepWorkspace } = state;
  const removal = {
    version: 1,
    instanceId: identity.instanceId,
    reason: state.rule.replaceAll('_', ' '),
    ...(keepWorkspace ? { keepWorkspace } : {}),
  };
  return {
    state: 'removing',
    intent: keepWorkspace ? 'suspended' : 'absent',
    stages: [],
    removeUpTo: generation,
    removeRun: 1,
    removal,
  };
}
