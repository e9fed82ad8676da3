import type { Inventory, LaunchAnswer, LaunchIntent } from '../inventory/port.ts';
import type { InstanceRecord } from '../inventory/types.ts';
import { launchAttempts } from '../jobs/catalog.ts';

/** Seconds for a run that nobody gave a deadline: as long as the longest budget of a profile by default. */
const defaultDeadlineSeconds = 1800;

type Again = ReturnType<Inventory['intendAgain']>;

/**
 * A new run of what the record holds, as long as its generation is the wanted one. Nothing is validated again, so that a
 * profile that is gone blocks no reconnect.
 */
export function askReconnect(inventory: Pick<Inventory, 'intendAgain'>, record: InstanceRecord): Again {
  return inventory.intendAgain({ ...intentOf(record), sealedEnv: '', reconnect: true, seen: record.generation });
}

/** A new generation of a failed instance, with the same request and the secrets that were sealed for it. */
export function askRetry(inventory: Pick<Inventory, 'intendAgain'>, record: InstanceRecord, sealedEnv: string): Again {
  return inventory.intendAgain({ ...intentOf(record), sealedEnv, seen: record.generation });
}

/** A new run of the generation that failed, from its recorded recipe, with all attempts and its deadline anew. */
export function askRedrive(inventory: Pick<Inventory, 'intendLaunch'>, record: InstanceRecord): Promise<LaunchAnswer> {
  const of = { generation: record.generation, run: record.run };
  return inventory.intendLaunch({ ...intentOf(record), sealedEnv: '', redrive: of });
}

/** What a record was asked with; its sealed secrets are kept apart. */
function intentOf(record: InstanceRecord): Omit<LaunchIntent, 'sealedEnv'> {
  const { payload, requestHash } = record.request;
  return {
    instanceId: record.instanceId,
    owner: record.owner,
    payload,
    requestHash,
    cluster: record.cluster,
    profile: record.profile,
    app: record.app,
    deadlineSeconds: Number(payload.deadlineSeconds ?? defaultDeadlineSeconds),
    attempts: launchAttempts,
    lifetime: record.lifetime ?? {},
    limits: record.limits,
  };
}
