import { agentctlRestartCommand } from '../agent/agentctl-bootstrap.ts';
import { WindlassError } from '../errors.ts';
import type { CallOptions, Cluster, ExecTarget } from '../kubernetes/port.ts';
import { sanitize } from '../kubernetes/sanitize.ts';

/**
 * Ends the agentctl of a container, which the kubelet starts anew: its nonce is armed again then, and its token another.
 * The caller waits for the new one. That the exec breaks off is a normal end: its container went with the agent.
 */
export async function endAgentctl(cluster: Cluster, target: ExecTarget, options: CallOptions): Promise<void> {
  try {
    const { exitCode, stderr } = await cluster.exec(target, agentctlRestartCommand(), options);
    if (exitCode === 0 || exitCode > 128) return;
    throw new WindlassError('handshake_failed', `The agent could not be started anew (exit code ${exitCode}).`, {
      evidence: { exitCode, stderr: sanitize(stderr, 500) },
    });
  } catch (error) {
    options.signal?.throwIfAborted();
    if (!(error instanceof WindlassError && error.code === 'exec_lost')) throw error;
  }
}
