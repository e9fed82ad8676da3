import { asWindlassError } from '../errors.ts';
import { sanitize } from '../kubernetes/sanitize.ts';
import type { HeldJob } from './bench.ts';
import type { TeardownPayload } from './catalog.ts';

const cleanupMs = 60_000;

/** The caller's own last words inside the Pod: best effort, told about, never in the way of the removal. */
export async function cleanUpInside(job: HeldJob, payload: TeardownPayload): Promise<void> {
  const pod = job.record().pod;
  if (payload.cleanup === undefined || payload.force === true || pod === null) return;
  if (job.cluster.pods.get(pod.name)?.status?.phase === 'Pending') return;
  const container = job.record().app === '' ? await mainContainer(job) : 'app';
  try {
    const result = await job.cluster.exec({ pod: pod.name, container }, ['/bin/sh', '-c', payload.cleanup], {
      signal: AbortSignal.any([job.lease.signal, job.signal]),
      timeoutMs: cleanupMs,
      instance: job.record().hash,
    });
    await job.write({ events: [{ type: 'stage.progress', stage: 'cleanup', exitCode: result.exitCode }] });
  } catch (error) {
    job.lease.signal.throwIfAborted();
    const { code, message } = asWindlassError(error);
    await job.write({ events: [{ type: 'stage.progress', stage: 'cleanup', code, message: sanitize(message) }] });
  }
}

/** The snapshot knows the container's name; without one the profile of today does. */
async function mainContainer(job: HeldJob): Promise<string> {
  const stored = await job.shelf.get<{ text: string }>(`snapshot:${job.record().snapshot}`);
  const text = stored?.text;
  if (text !== undefined) return (JSON.parse(text) as { profile: { mainContainer: string } }).profile.mainContainer;
  return job.recipes.find('profile', job.record().profile).profile.mainContainer;
}
