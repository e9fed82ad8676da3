import { access, constants, mkdir } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { dirname, resolve } from 'node:path';
import type { Command } from 'commander';
import { shellEnv } from '../config/environment.ts';
import { usage, verb } from './context.ts';
import { interruptible } from './interrupt.ts';
import { collect, pair, whole } from './values.ts';

interface LocalClusterOptions {
  readonly port: string;
  readonly kubeconfig: string;
  readonly faults?: string;
  readonly auditLog?: string;
  readonly image?: readonly string[];
}

/** Where `local-cluster` writes and `init` looks: the two work together without any option. */
export const localKubeconfig = '.windlass/local-cluster/kubeconfig';

/** The file is overwritten at the start and removed at the end: neither may happen to somebody else's. */
const taken = {
  running: (file: string) => `${file} belongs to a local cluster that is running: use that one, or name another file`,
  another: (file: string) => `${file} is not of a local cluster and would be overwritten: name another file`,
};

export function localCluster(program: Command): void {
  const command = program
    .command('local-cluster')
    .description('a Kubernetes API whose Pods are processes of this machine, until Ctrl-C')
    .option('--port <n>', '0 = a free one', '0')
    .option('--kubeconfig <file>', 'written once the API answers', localKubeconfig)
    .option('--faults <file>', 'faults to act out; read again when it changes')
    .option('--audit-log <file>', 'one JSON line a request')
    .option('--image <name=dir>', "a folder as an image's root (repeatable)", collect);
  verb<LocalClusterOptions>(command, async (context, options) => {
    const images = (options.image ?? []).map((text) => pair('--image', text));
    const settings = {
      port: whole('--port', options.port, 0, 65535),
      kubeconfig: resolve(options.kubeconfig),
      ...(options.faults !== undefined && { faults: await existingPath('--faults', options.faults) }),
      ...(options.auditLog !== undefined && { auditLog: resolve(options.auditLog) }),
      images: Object.fromEntries(
        await Promise.all(images.map(async ([name, dir]) => [name, await existingPath('--image', dir)])),
      ) as Record<string, string>,
      sandbox: shellEnv('WINDLASS_SANDBOX') === 'none' ? ('none' as const) : ('auto' as const),
      log: (message: string) => context.out.say(message),
    };
    const [{ startLocalCluster }, { ownerOfKubeconfig }] = await Promise.all([
      import('../local-cluster/start.ts'),
      import('../local-cluster/credentials.ts'),
    ]);
    await writable('--kubeconfig', dirname(settings.kubeconfig));
    const owner = await ownerOfKubeconfig(settings.kubeconfig);
    if (owner !== 'nobody') throw usage('--kubeconfig', taken[owner](settings.kubeconfig));
    if (settings.auditLog !== undefined) await writable('--audit-log', dirname(settings.auditLog));
    // Pods and claims lie there.
    await writable('TMPDIR', tmpdir());
    const interrupt = interruptible();
    const cluster = await startLocalCluster(settings).catch((error: unknown) => {
      throw portTrouble(error, settings.port);
    });
    try {
      const { url, kubeconfig, mode } = cluster;
      context.out.line({ url, kubeconfig, mode: mode.kind });
      context.out.say(`Local cluster at ${url}. Use it with: export KUBECONFIG=${kubeconfig}`);
      await interrupt.interrupted;
    } finally {
      await cluster.close();
      interrupt.dispose();
    }
  });
}

/** The folder is made when it is not there; the error names the option or variable that names it. */
async function writable(name: string, folder: string): Promise<void> {
  try {
    await mkdir(folder, { recursive: true });
    await access(folder, constants.W_OK | constants.X_OK);
  } catch (error) {
    throw usage(name, `nothing can be written into ${folder}: ${(error as Error).message}`);
  }
}

function portTrouble(error: unknown, port: number): unknown {
  const { code, syscall } = ((error as Error).cause ?? {}) as NodeJS.ErrnoException;
  if (syscall !== 'listen') return error;
  const why = code === 'EADDRINUSE' ? 'is in use' : `cannot be listened on (${code})`;
  return usage('--port', `${port} ${why} on 127.0.0.1: name another one, or leave the option out for a free one`);
}

async function existingPath(option: string, path: string): Promise<string> {
  const full = resolve(path);
  try {
    await access(full);
  } catch (error) {
    throw usage(option, `cannot be read: ${(error as Error).message}`);
  }
  return full;
}
