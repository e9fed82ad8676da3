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
    const { agentToken, agentNonce } = await context.inventory.secrets(context.record().hash);
    const maxSeconds = Number(context.record().lifetime?.maxSeconds ?? context.profile.lifetime.maxSeconds);
    return {
      kind: 'done',
      write: {
        state: 'ready',
        set: { readyAt: now, expiresAt: now + maxSeconds * 1000, failure: null },
        secrets: { ...(agentToken === undefined ? {} : { agentToken }), ...(agentNonce === undefined ? {} : { agentNonce }) },
        events: [{ type: 'ready' }],
      },
    };
  },
};
