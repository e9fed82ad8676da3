import type { InstanceRecord, NewEvent } from '../../inventory/types.ts';
import { howResumed, rebuilds, resumes } from '../resume.ts';
import type { Stage } from '../stage.ts';

/**
 * The result and what a reconnect needs, in one write (I18). The script refuses it when a newer intent came meanwhile,
 * which is the "still wanted?" after; run-stages asks before.
 */
export const ready: Stage = {
  name: 'ready',
  budget: (profile) => profile.budgets.connect,

  async apply(context) {
    const now = context.now();
    const record = context.record();
    const { agentToken, agentNonce } = await context.inventory.secrets(record.hash);
    const maxSeconds = Number(record.lifetime?.maxSeconds ?? context.profile.lifetime.maxSeconds);
    return {
      kind: 'done',
      write: {
        state: 'ready',
        set: { readyAt: now, expiresAt: now + maxSeconds * 1000, failure: null, ...afterResume(record) },
        secrets: { ...(agentToken === undefined ? {} : { agentToken }), ...(agentNonce === undefined ? {} : { agentNonce }) },
        events: readyEvents(record),
      },
    };
  },
};

/** A reconnect makes nothing younger: else whoever reconnects often enough would have an instance for ever. */
function afterResume(record: InstanceRecord): Partial<InstanceRecord> {
  if (!resumes(record)) return {};
  return {
    ...(record.expiresAt > 0 ? { expiresAt: record.expiresAt } : {}),
    ...(record.state === 'ready' ? { readyAt: record.readyAt } : {}),
    ...(rebuilds(record) ? { rebuilds: record.rebuilds + 1 } : {}),
  };
}

function readyEvents(record: InstanceRecord): NewEvent[] {
  const reconnected: NewEvent[] = resumes(record) ? [{ type: 'reconnected', how: howResumed(record), run: record.run }] : [];
  return record.state === 'ready' ? reconnected : [...reconnected, { type: 'ready' }];
}
