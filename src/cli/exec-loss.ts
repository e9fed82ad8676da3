import { poll } from '../clock.ts';
import { WindlassError } from '../errors.ts';
import { endProblem } from '../kubernetes/pod-containers.ts';
import { containersOf } from '../kubernetes/pod-view.ts';
import type { OpenPod } from './pod.ts';

/** A connection breaks before the kubelet has told why. */
const toldWithinMs = 3000;

/**
 * Why a command was cut off. A broken connection is often the end of what it led to, and then the Pod knows more than the
 * socket: a container that ran out of memory (C51), a Pod that was taken away. Any other error is given back as it is.
 */
export async function explainLoss(pod: OpenPod, error: WindlassError): Promise<WindlassError> {
  if (error.code !== 'exec_lost' && error.code !== 'forward_lost') return error;
  let reason: WindlassError | undefined;
  const found = async () => {
    reason = await reasonOf(pod, error);
    return reason !== undefined;
  };
  // What cannot be read explains nothing: then the loss itself is what there is to tell.
  await poll(found, { everyMs: 200, forMs: toldWithinMs }).catch(() => false);
  return reason ?? error;
}

async function reasonOf(
  { record, cluster, name, mainContainer }: OpenPod,
  cause: WindlassError,
): Promise<WindlassError | undefined> {
  const found = await cluster.read('pods', name);
  if (found?.metadata?.uid !== record.pod?.uid) {
    return new WindlassError('pod_disrupted', 'The Pod was taken away while the command ran.', {
      cause,
      hint: 'Its workspace may live on: `windlass reconnect` builds the Pod again on its claim.',
    });
  }
  const main = containersOf(found ?? {}, mainContainer).find(({ kind }) => kind === 'main');
  // The container that was worked with is still the one that runs: it did not end under the command.
  if (main?.status?.state?.running && main.status.containerID === record.pod?.main?.id) return undefined;
  const problem = main === undefined ? undefined : endProblem(main);
  if (problem?.code !== 'oom_killed') return undefined;
  return new WindlassError(problem.code, problem.message, {
    cause,
    evidence: { ...problem.evidence },
    hint: 'The same command needs as much again: raise the memory limit of the profile or the request.',
  });
}
