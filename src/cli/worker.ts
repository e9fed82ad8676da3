import type { Command } from 'commander';
import type { LoadedConfig } from '../config/load.ts';
import { type Context, usage, verb } from './context.ts';
import { interruptible } from './interrupt.ts';
import { whole } from './values.ts';

const allQueues = ['launch', 'teardown', 'sweep'] as const;
type QueueName = (typeof allQueues)[number];

interface WorkerOptions {
  readonly queues?: string;
  readonly concurrency?: string;
  readonly port?: string;
  readonly serve?: boolean;
}

export function worker(program: Command): void {
  const command = program
    .command('worker')
    .description('take jobs from the queues until SIGTERM')
    .option('--queues <names>', 'launch, teardown and sweep, separated by commas', allQueues.join(','))
    .option('--concurrency <n>', 'jobs at once per queue (default: worker.concurrency)')
    .option('--port <n>', 'serve health and metrics on this port (0 = a free one)')
    .option('--serve', 'serve the dashboard too');
  verb<WorkerOptions>(command, async (context, options) => {
    const settings = {
      queues: queuesFrom(options.queues ?? ''),
      ...(options.concurrency !== undefined && { concurrency: whole('--concurrency', options.concurrency, 1, 1000) }),
      ...(options.port !== undefined && { port: whole('--port', options.port, 0, 65535) }),
    };
    const loaded = await context.load();
    const { checkClusters } = await import('./checks.ts');
    await checkClusters(loaded);
    await work(context, loaded, settings, options.serve === true);
  });
}

function queuesFrom(text: string): QueueName[] {
  const names = text.split(',').map((name) => name.trim());
  const wrong = names.find((name) => !allQueues.includes(name as QueueName));
  if (wrong !== undefined) throw usage('--queues', `must be of ${allQueues.join(', ')}, separated by commas; not "${wrong}"`);
  return [...new Set(names)] as QueueName[];
}

interface Settings {
  readonly queues: QueueName[];
  readonly concurrency?: number;
  readonly port?: number;
}

async function work(context: Context, loaded: LoadedConfig, settings: Settings, alsoServe: boolean): Promise<void> {
  const { startWorker } = await import('../main.ts');
  const interrupt = interruptible();
  // The dashboard first: a taken port must stop the worker before it takes a job.
  const server = alsoServe ? await startServing(loaded) : undefined;
  const running = await startWorker(loaded, settings).catch(async (error: unknown) => {
    await server?.close();
    throw error;
  });
  try {
    const { queues } = settings;
    context.out.line({ queues, ...(running.port !== undefined && { port: running.port }), ...(server && { url: server.url }) });
    context.out.say(`Worker takes jobs of ${queues.join(', ')}. Ctrl-C or SIGTERM hands running jobs back and stops.`);
    await interrupt.interrupted;
    context.out.say('Draining.');
  } finally {
    await Promise.all([running.close(), server?.close()]);
    interrupt.dispose();
  }
}

async function startServing(loaded: LoadedConfig): Promise<{ url: string; close(): Promise<void> }> {
  const [{ openCaller }, { startServer }] = await Promise.all([import('../main.ts'), import('../dashboard/serve.ts')]);
  const caller = await openCaller(loaded);
  const server = await startServer({ caller }).catch(async (error: unknown) => {
    await caller.close();
    throw error;
  });
  return {
    url: server.url,
    close: async () => {
      await server.close();
      await caller.close();
    },
  };
}
