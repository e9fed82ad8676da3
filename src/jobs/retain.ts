import type { InstanceRecord } from '../inventory/types.ts';
import { keys } from '../kubernetes/ownership.ts';
import type { Cluster } from '../kubernetes/port.ts';

/**
 * Marks the claim of an instance whose Pod is gone as one that is kept: should Redis be lost before its next run, neither a
 * sweep nor a recovery takes it for the rest of a removal. A claim that is not ours is left alone. Throws as a patch does.
 */
export async function retainClaim(
  cluster: Cluster,
  record: Pick<InstanceRecord, 'workspace'>,
  assertHeld: () => void,
  signal: AbortSignal,
): Promise<void> {
  if (!record.workspace?.created || record.workspace.claimUid === '') return;
  const { claimName, claimUid } = record.workspace;
  assertHeld();
  const body = { metadata: { uid: claimUid, annotations: { [keys.retained]: 'true' } } };
  await cluster.patch('persistentvolumeclaims', claimName, body, { signal });
}
