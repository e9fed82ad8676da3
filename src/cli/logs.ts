import { Writable } from 'node:stream';
import type { Command } from 'commander';
import { checkedId, usage, verb } from './context.ts';
import { interruptible } from './interrupt.ts';
import { type OpenPod, openPod } from './pod.ts';
import { seconds, whole } from './values.ts';

interface LogsOptions {
  readonly follow?: boolean;
  readonly previous?: boolean;
  readonly container?: string;
  readonly tail?: string;
  readonly since?: string;
}

export function logs(program: Command): void {
  const command = program
    .command('logs <id>')
    .description("a container's log, as it stands")
    .option('-f, --follow', 'go on as it grows')
    .option('--previous', 'of the container before the last restart')
    .option('--container <name>', 'another container than the main one')
    .option('--tail <lines>', 'only the last lines')
    .option('--since <seconds>', 'only what is newer');
  verb<LogsOptions>(command, async (context, options, [id]) => {
    const instanceId = await checkedId(id);
    const wanted = {
      follow: options.follow === true,
      previous: options.previous === true,
      ...(options.tail !== undefined && { tailLines: whole('--tail', options.tail, 0, 999_999_999) }),
      ...(options.since !== undefined && { sinceSeconds: Math.max(1, seconds('--since', options.since)) }),
    };
    const interrupt = interruptible();
    try {
      await context.withOperator(async (operator) => {
        const pod = await openPod(operator, instanceId);
        if (options.container !== undefined) await checkContainer(pod, options.container, interrupt.signal);
        const sink = new Writable({
          write: (chunk: Buffer, _encoding, done) =>
            void (process.stdout.write(chunk) ? done() : process.stdout.once('drain', done)),
        });
        await pod.cluster.logs(pod.name, sink, {
          ...wanted,
          container: options.container ?? pod.mainContainer,
          signal: interrupt.signal,
          instance: instanceId,
        });
      });
    } catch (error) {
      if (!interrupt.signal.aborted) throw error;
    } finally {
      interrupt.dispose();
    }
  });
}

/** The API's own answer to a wrong name is a bare 400, which says neither that it is the name nor which there are. */
async function checkContainer(pod: OpenPod, wanted: string, signal: AbortSignal): Promise<void> {
  const found = await pod.cluster.read('pods', pod.name, { signal, instance: pod.name });
  if (found === undefined) return;
  const { containers = [], initContainers = [], ephemeralContainers = [] } = found.spec ?? {};
  const names = [...containers, ...initContainers, ...ephemeralContainers].map(({ name }) => name);
  if (!names.includes(wanted)) throw usage('--container', `must be one of ${names.join(', ')}, not "${wanted}"`);
}
