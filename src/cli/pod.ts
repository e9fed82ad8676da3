import { WindlassError } from '../errors.ts';
import type { InstanceRecord } from '../inventory/types.ts';
import type { Cluster } from '../kubernetes/port.ts';
import type { Operator } from '../main.ts';
import { podName } from '../names.ts';
import { existing } from './follow.ts';

export interface OpenPod {
  readonly record: InstanceRecord;
  readonly cluster: Cluster;
  readonly name: string;
  readonly mainContainer: string;
  /** False where commands go through the cluster: no agent, or one that runs none for us. */
  readonly agentRuns: boolean;
}

/** The Pod of an instance, for logs and exec. The name is derived, never taken from the record alone (I16). */
export async function openPod(operator: Operator, instanceId: string): Promise<OpenPod> {
  const record = await existing(operator.inventory, instanceId);
  if (record.pod === null) {
    throw new WindlassError('conflict', `The instance "${instanceId}" is ${record.state}: it has no running workspace now.`, {
      hint: '`windlass wait --for ready` waits for it.',
    });
  }
  const name = podName(operator.inventory.hashOf(instanceId));
  const cluster = operator.clusters.get(record.cluster);
  if (name !== record.pod.name || cluster.namespace !== record.namespace) {
    throw new WindlassError(
      'invariant_broken',
      `The record of "${instanceId}" names the Pod ${record.namespace}/${record.pod.name}, which cannot be its own.`,
    );
  }
  const profile = operator.loaded.config.profiles[record.profile];
  return {
    record,
    cluster,
    name,
    mainContainer: record.app !== '' ? 'app' : (profile?.mainContainer ?? 'agent'),
    agentRuns: record.app === '' && profile?.agent.delivery !== 'none' && record.agent?.protocol === undefined,
  };
}
