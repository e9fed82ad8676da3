import type { CreateRecord, InstanceRecord } from '../inventory/types.ts';
import type { ComposeInput } from '../kubernetes/compose.ts';
import type { Identity } from '../kubernetes/ownership.ts';
import { canonicalJson } from '../names.ts';
import type { LaunchPayload } from './catalog.ts';
import type { StageContext } from './stage.ts';

export function identityOf(installation: string, record: InstanceRecord, payload: LaunchPayload): Identity {
  return {
    installation,
    instanceId: record.instanceId,
    hash: record.hash,
    owner: record.owner,
    cluster: record.cluster,
    profile: record.profile === '' ? record.app : record.profile,
    ...(payload.taskId === undefined ? {} : { taskId: payload.taskId }),
    ...(payload.sessionId === undefined ? {} : { sessionId: payload.sessionId }),
    ...(payload.environmentId === undefined ? {} : { environmentId: payload.environmentId }),
  };
}

/** True when something runs before the agent serves, so that the Pod carries a startup probe to tell us. */
export const prepares = (payload: LaunchPayload): boolean => payload.prepare !== undefined || payload.repository !== undefined;

/** What composing an owned object needs: pure data, the same for every attempt of a generation. */
export function composeInput(context: StageContext, kind: CreateRecord['kind'], agent: ComposeInput['agent']): ComposeInput {
  const record = context.record();
  const { payload, profile } = context;
  const claim = record.workspace?.claimName;
  return {
    identity: context.identity,
    namespace: context.cluster.namespace,
    generation: record.generation,
    nonce: record.creates[kind]?.nonce ?? '',
    profile,
    template: context.template,
    workspaceClaim: claim === '' ? undefined : claim,
    agent,
    prepares: prepares(payload),
    snapshotName: record.snapshot,
    ...(record.lifetime === null ? {} : { lifetime: canonicalJson(record.lifetime) }),
    ...(payload.labels === undefined ? {} : { labels: payload.labels }),
    ...(payload.annotations === undefined ? {} : { annotations: payload.annotations }),
    ...(payload.resources === undefined ? {} : { resources: payload.resources }),
    ...(payload.secretRefs === undefined ? {} : { secretRefs: payload.secretRefs }),
    ...(profile.agent.delivery === 'none' && payload.env !== undefined ? { env: payload.env } : {}),
  };
}
