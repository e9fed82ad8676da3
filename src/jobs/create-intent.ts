import type { CreateRecord, InstanceRecord } from '../inventory/types.ts';
import { createNonce } from '../kubernetes/ownership.ts';
import { claimName, podName } from '../names.ts';
import type { JobContext } from './context.ts';

/** A create that was never sent. Its nonce is the same for all of a generation, so that it can be derived again (I3). */
export function createIntent(context: JobContext, record: InstanceRecord, kind: CreateRecord['kind']): CreateRecord {
  const { instanceId, generation, hash } = record;
  const nonce = createNonce(context.keyring.nonceKey(), {
    installation: context.config.installation,
    instanceId,
    generation,
    kind,
  });
  return { kind, name: kind === 'pods' ? podName(hash) : claimName(hash), nonce, generation, sentAt: 0, open: false };
}
