import type { InstanceRecord, NewEvent } from '../../inventory/types.ts';
import { finishWrite } from '../loss.ts';
import { howResumed, rebuilds, resumes } from '../resume.ts';
import type { Stage, StageContext } from '../stage.ts';

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
    const ending = endOf(context, record, afterResume(record).expiresAt ?? now + maxSeconds * 1000);
    return {
      kind: 'done',
      write: {
        state: 'ready',
        set: { readyAt: now, failure: null, ...afterResume(record), ...ending.set },
        secrets: { ...(agentToken === undefined ? {} : { agentToken }), ...(agentNonce === undefined ? {} : { agentNonce }) },
        events: [...readyEvents(record), ...ending.events],
      },
    };
  },
};

/** An app may be through by now: it is ready and finished in one write. Its end is told once. Beside an agent a command ends, not the instance. */
function endOf(context: StageContext, record: InstanceRecord, expiresAt: number) {
  if (record.exitCode === null || record.agent !== null) return { set: { expiresAt }, events: [] };
  const { finishedSeconds } = context.config.retention;
  const finish = { exitCode: record.exitCode, reason: '' };
  const { set, events = [] } = finishWrite({ expiresAt }, finish, { now: context.now(), finishedSeconds });
  return { set: set ?? {}, events: record.state === 'ready' ? [] : events };
}

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
