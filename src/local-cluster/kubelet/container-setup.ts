import { randomBytes } from 'node:crypto';
import { chmodSync, mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import type { V1Container } from '@kubernetes/client-node';
import { ConfigError, expand, resolveEnvironment } from './environment.ts';
import type { Toolbox } from './images.ts';
import type { ContainerSetup, PodIsolation } from './isolation.ts';
import type { PodContext } from './pod-context.ts';
import { type Pod, podFullName } from './pod-types.ts';
import { MountError } from './volume-payload.ts';
import { containerMounts } from './volumes.ts';

export interface PreparedContainer {
  readonly setup: ContainerSetup;
  readonly argv: readonly string[];
  /** The file behind terminationMessagePath. */
  readonly terminationLog: string;
}

/** Everything about a start that can be wrong in the Pod's configuration. Throws ConfigError with the kubelet's words. */
export async function prepareContainer(
  context: PodContext,
  isolation: PodIsolation,
  container: V1Container,
  toolbox: Toolbox,
  attempt: number,
): Promise<PreparedContainer> {
  const pod = context.pod();
  const user = userOf(pod, container);
  const env = resolveEnvironment({ store: context.store, pod, container, podIP: isolation.podIP });
  const folder = join(context.folder, 'containers', container.name, String(attempt));
  mkdirSync(folder, { recursive: true });
  const terminationLog = join(folder, 'termination-log');
  writeFileSync(terminationLog, '');
  chmodSync(terminationLog, 0o666);
  const { mounts, insideFolders } = mountsOf(context, container, env);
  if (insideFolders.length > 0) await isolation.mkdir(insideFolders);
  const terminationPath = container.terminationMessagePath ?? '/dev/termination-log';
  const setup: ContainerSetup = {
    id: randomBytes(32).toString('hex'),
    toolbox,
    root: join(folder, 'root'),
    readOnlyRoot: container.securityContext?.readOnlyRootFilesystem === true,
    mounts: [...mounts, { source: terminationLog, target: terminationPath, readOnly: false }],
    env,
    workingDir: container.workingDir || undefined,
    ...user,
  };
  mkdirSync(setup.root, { recursive: true });
  isolation.prepare(setup);
  return { setup, argv: commandOf(container, toolbox, env), terminationLog };
}

function mountsOf(context: PodContext, container: V1Container, env: Record<string, string>) {
  try {
    return containerMounts(container, context.volumes(), env);
  } catch (error) {
    if (error instanceof MountError) throw new ConfigError(`${error.message} "${container.name}"`);
    throw error;
  }
}

/**
 * `args` alone replace the image's own command, as these images have no entry point; Node's has one, which gives what is no
 * program to node.
 */
function commandOf({ command = [], args = [] }: V1Container, toolbox: Toolbox, env: Record<string, string>): string[] {
  const forNode = toolbox.entry[0] === 'node' && /^-|\.[cm]?js$/.test(args[0] ?? '');
  const own = args.length === 0 || forNode ? toolbox.entry : [];
  return [...(command.length > 0 ? command : own), ...args].map((word) => expand(word, env));
}

/** Images here have no user of their own: they run as root when the Pod does not say otherwise. */
export function userOf(pod: Pod, container: V1Container): { uid: number; gid: number } {
  const own = container.securityContext ?? {};
  const shared = pod.spec.securityContext ?? {};
  const uid = own.runAsUser ?? shared.runAsUser;
  if ((own.runAsNonRoot ?? shared.runAsNonRoot) === true && (uid ?? 0) === 0) {
    const who = `(pod: "${podFullName(pod)}", container: ${container.name})`;
    throw new ConfigError(
      uid === 0
        ? `container's runAsUser breaks non-root policy ${who}`
        : `container has runAsNonRoot and image will run as root ${who}`,
    );
  }
  return { uid: uid ?? 0, gid: own.runAsGroup ?? shared.runAsGroup ?? shared.fsGroup ?? 0 };
}
