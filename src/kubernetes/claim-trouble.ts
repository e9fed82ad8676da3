import type { CoreV1Event } from '@kubernetes/client-node';
import { codeForKubernetesText } from '../error-codes.ts';
import type { ContainerProblem } from './pod-containers.ts';
import { firstSeen, lastText } from './pod-view.ts';
import { sanitize } from './sanitize.ts';

/** The class, or whatever else is said to be missing, may be made a moment after the claim. */
const missingGraceMs = 30_000;

const isWarning = (event: CoreV1Event): boolean => event.type === 'Warning';

/**
 * Why a claim is not bound, in the words of its own events: the scheduler only says that it is not. A class that does not
 * exist is final after a short grace; of anything else the provisioner may still come out, until the budget ends.
 */
export function claimTrouble(events: readonly CoreV1Event[]): ContainerProblem | undefined {
  const text = sanitize(lastText(events, isWarning), 1000);
  if (text === '') return undefined;
  const missing = codeForKubernetesText(text) === 'storage_failed';
  return {
    code: 'storage_failed',
    message: `The volume of the workspace could not be provided: ${text}`,
    graceMs: missing ? missingGraceMs : Number.POSITIVE_INFINITY,
    since: firstSeen(events, isWarning),
    evidence: {
      claimEvents: events
        .slice(-5)
        .map(({ reason, message }) => ({ reason: sanitize(reason ?? '', 100), message: sanitize(message ?? '', 500) })),
    },
  };
}
