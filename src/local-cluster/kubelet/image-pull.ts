import type { V1Container } from '@kubernetes/client-node';
import { type Fault, pullError, resolveImage, type Toolbox } from './images.ts';
import type { PodContext } from './pod-context.ts';
import type { ContainerState } from './pod-types.ts';
import { BackOff, pause } from './timing.ts';

export interface PulledImage {
  readonly toolbox: Toolbox;
  readonly fault: Fault | undefined;
  readonly fullName: string;
  readonly id: string;
}

export interface PullReporter {
  readonly record: (type: 'Normal' | 'Warning', reason: string, message: string) => void;
  readonly waiting: (state: NonNullable<ContainerState['waiting']>) => void;
}

/** How often the kubelet looks again at what it cannot mend itself. */
const resyncMs = 10_000;
const failing = new Set(['err-image-pull', 'image-pull-backoff', 'pull-rate-limited']);
/** Fault images that run have Node and a shell. */
const faultToolbox: Toolbox = { name: 'node', entry: ['node'] };

/** Gets the image, for as long as it takes; undefined when the Pod is to end before. */
export async function pullImage(
  context: PodContext,
  container: V1Container,
  report: PullReporter,
): Promise<PulledImage | undefined> {
  const backOff = new BackOff(10_000);
  while (!context.stopping.aborted) {
    const name = container.image ?? '';
    const image = resolveImage(name, context.images);
    const fault = image.kind === 'fault' ? image.fault : undefined;
    if (image.kind === 'invalid' || fault?.kind === 'invalid-image-name') {
      await invalid(context, image.kind === 'invalid' ? image.message : invalidMessage(name), report);
    } else if ((image.kind === 'unknown' || failing.has(fault?.kind ?? '')) && container.imagePullPolicy === 'Never') {
      await neverPulled(context, name, report);
    } else if (image.kind === 'unknown' || failing.has(fault?.kind ?? '')) {
      const error = pullError(name, image.fullName, fault?.kind === 'pull-rate-limited');
      await failedPull(context, { name, error, backOff, atOnce: fault?.kind === 'image-pull-backoff' }, report);
    } else {
      const toolbox = image.kind === 'toolbox' ? image.toolbox : faultToolbox;
      await pulled(context, container, fault, report);
      return { toolbox, fault, fullName: image.fullName, id: image.id };
    }
  }
  return undefined;
}

function invalidMessage(name: string): string {
  return `Failed to apply default image tag "${name}": couldn't parse image name "${name}": invalid reference format`;
}

async function invalid(context: PodContext, message: string, report: PullReporter): Promise<void> {
  report.record('Warning', 'InspectFailed', message);
  report.record('Warning', 'Failed', 'Error: InvalidImageName');
  report.waiting({ reason: 'InvalidImageName', message });
  await pause(resyncMs, context.stopping);
}

async function neverPulled(context: PodContext, name: string, report: PullReporter): Promise<void> {
  const message = `Container image "${name}" is not present with pull policy of Never`;
  report.record('Warning', 'ErrImageNeverPull', message);
  report.record('Warning', 'Failed', 'Error: ErrImageNeverPull');
  report.waiting({ reason: 'ErrImageNeverPull', message });
  await pause(resyncMs, context.stopping);
}

interface FailedPull {
  readonly name: string;
  readonly error: string;
  readonly backOff: BackOff;
  /** Shows the back-off without a second of ErrImagePull before. */
  readonly atOnce: boolean;
}

async function failedPull(
  context: PodContext,
  { name, error, backOff, atOnce }: FailedPull,
  report: PullReporter,
): Promise<void> {
  report.record('Normal', 'Pulling', `Pulling image "${name}"`);
  report.record('Warning', 'Failed', `Failed to pull image "${name}": ${error}`);
  report.record('Warning', 'Failed', 'Error: ErrImagePull');
  report.waiting({ reason: 'ErrImagePull', message: error });
  await pause(atOnce ? 50 : 1000, context.stopping);
  if (context.stopping.aborted) return;
  report.record('Normal', 'BackOff', `Back-off pulling image "${name}"`);
  report.record('Warning', 'Failed', 'Error: ImagePullBackOff');
  report.waiting({ reason: 'ImagePullBackOff', message: `Back-off pulling image "${name}": ErrImagePull: ${error}` });
  await pause(backOff.take(), context.stopping);
}

async function pulled(
  context: PodContext,
  { image, imagePullPolicy }: V1Container,
  fault: Fault | undefined,
  report: PullReporter,
) {
  const slow = fault?.kind === 'slow-pull';
  if (imagePullPolicy !== 'Always' && !slow) {
    return report.record('Normal', 'Pulled', `Container image "${image}" already present on machine`);
  }
  report.record('Normal', 'Pulling', `Pulling image "${image}"`);
  const ms = slow ? fault.value * 1000 : 0;
  await pause(ms, context.stopping);
  if (context.stopping.aborted) return;
  report.record(
    'Normal',
    'Pulled',
    `Successfully pulled image "${image}" in ${ms}ms (${ms}ms including waiting). Image size: 0 bytes.`,
  );
}
