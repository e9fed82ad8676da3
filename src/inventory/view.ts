import { z } from 'zod';
import { type InstanceEvent, type InstanceRecord, states } from './types.ts';

/** The Instance of contract §4: what anybody sees of a record. Times are RFC 3339; null = has not happened. */
const time = z.iso.datetime().nullable();

export const instanceSchema = z.strictObject({
  instanceId: z.string(),
  owner: z.string(),
  generation: z.int(),
  state: z.enum(states),
  cluster: z.string(),
  namespace: z.string(),
  profile: z.string(),
  app: z.string().optional(),
  pod: z.strictObject({ name: z.string(), uid: z.string(), node: z.string(), ip: z.string() }).nullable(),
  workspace: z
    .strictObject({
      mode: z.enum(['managed_pvc', 'existing_claim', 'empty_dir']),
      claimName: z.string(),
      claimUid: z.string(),
      created: z.boolean(),
    })
    .nullable(),
  agent: z
    .strictObject({
      id: z.string(),
      port: z.int(),
      transport: z.enum(['port_forward', 'exec', 'pod_ip']),
      state: z.string(),
    })
    .nullable(),
  restartCount: z.int(),
  exitCode: z.int().optional(),
  hashes: z.strictObject({ cluster: z.string(), profile: z.string(), template: z.string() }).nullable(),
  stages: z.array(
    z.strictObject({
      name: z.string(),
      state: z.enum(['pending', 'running', 'waiting', 'done', 'failed']),
      checkpoint: z.string().nullable(),
      startedAt: time,
      durationMs: z.number().nullable(),
      wait: z.string().optional(),
    }),
  ),
  failure: z
    .strictObject({
      code: z.string(),
      message: z.string(),
      hint: z.string(),
      retriable: z.boolean(),
      stage: z.string(),
      evidence: z.record(z.string(), z.unknown()),
    })
    .nullable(),
  recovered: z.boolean().optional(),
  missing: z.array(z.string()).optional(),
  limits: z.record(z.string(), z.string()),
  lifetime: z.record(z.string(), z.unknown()).nullable(),
  createdAt: time,
  readyAt: time,
  updatedAt: time,
  expiresAt: time,
});

export type Instance = z.output<typeof instanceSchema>;

const rfc3339 = (ms: number | undefined): string | null => (ms ? new Date(ms).toISOString() : null);

export function toInstance(record: InstanceRecord): Instance {
  const { pod, workspace, agent } = record;
  return {
    instanceId: record.instanceId,
    owner: record.owner,
    generation: record.generation,
    state: record.state,
    cluster: record.cluster,
    namespace: record.namespace,
    profile: record.profile,
    ...(record.app === '' ? {} : { app: record.app }),
    pod: pod && { name: pod.name, uid: pod.uid, node: pod.node, ip: pod.ip },
    workspace: workspace && {
      mode: workspace.mode,
      claimName: workspace.claimName,
      claimUid: workspace.claimUid,
      created: workspace.created,
    },
    agent: agent && { id: agent.id, port: agent.port, transport: agent.transport, state: agent.state },
    restartCount: record.restartCount,
    ...(record.exitCode === null ? {} : { exitCode: record.exitCode }),
    hashes: record.hashes && { ...record.hashes },
    stages: record.stages.map(toStage),
    failure: record.failure && toFailure(record.failure),
    ...(record.recovered ? { recovered: true, missing: [...(record.missing ?? [])] } : {}),
    limits: { ...record.limits },
    lifetime: record.lifetime && { ...record.lifetime },
    createdAt: rfc3339(record.createdAt),
    readyAt: rfc3339(record.readyAt),
    updatedAt: rfc3339(record.updatedAt),
    expiresAt: rfc3339(record.expiresAt),
  };
}

function toStage(stage: InstanceRecord['stages'][number]): Instance['stages'][number] {
  return {
    name: stage.name,
    state: stage.state,
    checkpoint: stage.checkpoint ?? null,
    startedAt: rfc3339(stage.startedAt),
    durationMs: stage.durationMs ?? null,
    ...(stage.wait === undefined ? {} : { wait: stage.wait }),
  };
}

function toFailure(failure: NonNullable<InstanceRecord['failure']>): NonNullable<Instance['failure']> {
  const { code, message, hint, retriable, stage, evidence } = failure;
  return { code, message, hint, retriable, stage, evidence: { ...evidence } };
}

const eventTypes = [
  'requested',
  'queued',
  'stage.started',
  'stage.progress',
  'stage.done',
  'waiting',
  'retrying',
  'ready',
  'failed',
  'superseded',
  'rolling_back',
  'rolled_back',
  'cleanup_pending',
  'lost',
  'recovered',
  'reconnected',
  'suspended',
  'expiring',
  'expired',
  'removing',
  'gone',
  'command.exited',
  'gap',
] as const;

/** One event; what else it holds depends on its type. */
export const eventSchema = z.looseObject({
  seq: z.int(),
  instanceId: z.string(),
  generation: z.int(),
  type: z.enum(eventTypes),
  at: z.iso.datetime(),
});

/** The Event of contract §4: numbered facts first, then whatever the type brings along. */
export function toEvent(event: InstanceEvent): InstanceEvent {
  const { seq, instanceId, generation, type, at, ...rest } = event;
  return { seq, instanceId, generation, type, at, ...rest };
}
