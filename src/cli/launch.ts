import type { Command } from 'commander';
import { WindlassError } from '../errors.ts';
import type { InstanceRecord } from '../inventory/types.ts';
import type { Caller } from '../main.ts';
import { type Context, InstanceFailed, verb } from './context.ts';
import { failureOf, follow, type Glance, stageLine } from './follow.ts';
import { interruptible } from './interrupt.ts';
import { clean } from './output.ts';
import { readRequest, secretsFrom } from './request.ts';
import { collect, waitSeconds } from './values.ts';

interface LaunchOptions {
  readonly file?: string;
  readonly set?: readonly string[];
  readonly secretEnv?: readonly string[];
  readonly secretFile?: readonly string[];
  readonly wait?: boolean;
  readonly timeout?: string;
}
type Accepted = Awaited<ReturnType<Caller['producer']['launch']>>;

export function launch(program: Command): void {
  const command = program
    .command('launch')
    .description('ask for an instance; --wait shows its stages until it is ready or failed')
    .option('-f, --file <file>', 'the request as YAML or JSON; - reads stdin')
    .option('--set <path=yaml>', 'set one field of the request (repeatable)', collect)
    .option('--secret-env <name>', 'pass this variable of your shell as a sealed secret (repeatable)', collect)
    .option('--secret-file <name=path>', "pass a file's content as a sealed secret (repeatable)", collect)
    .option('--wait', 'wait until it is ready or failed; Ctrl-C detaches')
    .option('--timeout <seconds>', 'with --wait: how long at most');
  verb<LaunchOptions>(command, async (context, options) => {
    const timeout = waitSeconds(options);
    const request = await readRequest(options.file, options.set ?? []);
    const secretEnv = await secretsFrom(options.secretEnv ?? [], options.secretFile ?? []);
    return context.withCaller(async (caller) => {
      const accepted = await caller.producer.launch(request, Object.keys(secretEnv).length > 0 ? { secretEnv } : {});
      if (!options.wait) return showAccepted(context, accepted, 'launch');
      return waitUntilReady(context, caller, accepted, timeout);
    });
  });
}

export async function showAccepted(
  context: Context,
  accepted: Accepted,
  what: 'launch' | 'teardown' | 'reconnect' | 'retry',
): Promise<undefined> {
  const { instanceId, generation, jobId, state, deduplicated } = accepted;
  await context.out.show({
    document: { instanceId, generation, jobId, state, deduplicated },
    text: () =>
      `${clean(instanceId)}: ${what} ${deduplicated ? 'was already asked for' : 'accepted'} (generation ${generation}, ${state})`,
    names: [instanceId],
  });
}

export async function showReady(context: Context, record: InstanceRecord): Promise<void> {
  const { toInstance } = await import('../inventory/view.ts');
  const { instanceId } = record;
  await context.out.show({
    document: { ...toInstance(record) },
    text: () => `${clean(instanceId)}: ready`,
    names: [instanceId],
  });
}

/** How a command line would name the id: after `--`, and quoted so that a shell gives it back unchanged. */
export const shellId = (id: string): string => `-- ${/^[A-Za-z0-9._@/:+-]+$/.test(id) ? id : `'${id.replaceAll("'", "'\\''")}'`}`;

export async function waitUntilReady(
  context: Context,
  caller: Caller,
  accepted: Accepted,
  timeoutSeconds: number | undefined,
): Promise<number> {
  const { instanceId, generation } = accepted;
  const { toInstance } = await import('../inventory/view.ts');
  const interrupt = interruptible();
  context.out.say(`${clean(instanceId)}: ${accepted.deduplicated ? 'already asked for' : 'accepted'} (generation ${generation})`);
  await tellOfNoWorker(context, caller, 'launch');
  try {
    const record = await follow(caller.inventory, instanceId, {
      judge: (seen) => launchEnd(seen, generation),
      onEvent: (event) => {
        const line = event.generation === generation ? stageLine(event) : undefined;
        if (line) context.out.say(clean(line));
      },
      ...(timeoutSeconds === undefined ? {} : { timeoutSeconds }),
      signal: interrupt.signal,
    });
    if (record.state !== 'ready') throw new InstanceFailed(failureOf(record.failure!), toInstance(record));
    await showReady(context, record);
    return 0;
  } catch (error) {
    if (!interrupt.signal.aborted) throw error;
    context.out.say(`Detached: the launch goes on. To remove the instance: windlass teardown ${shellId(instanceId)}`);
    await showAccepted(context, accepted, 'launch');
    return 130;
  } finally {
    interrupt.dispose();
  }
}

/** Once, and then it is waited all the same: a worker may be about to start. */
export async function tellOfNoWorker(context: Context, caller: Caller, queue: 'launch' | 'teardown'): Promise<void> {
  if (await caller.workerSeen(queue)) return;
  context.out.say(
    `No worker that takes ${queue} jobs has been seen for two minutes: this waits until one runs (windlass worker).`,
  );
}

/** Where this generation of a launch ended, or undefined while it is under way; a newer request is an end as well. */
export function launchEnd({ record, tombstone }: Glance, generation: number): InstanceRecord | undefined {
  if (!record || record.generation > generation || record.intent !== 'present') {
    const gone = tombstone ? 'it was torn down meanwhile' : record ? 'a newer request took over' : 'its record is gone';
    throw new WindlassError('superseded', `The launch did not become ready: ${gone}.`);
  }
  if (record.state === 'ready') return record;
  const failed = record.failure !== null && record.failure.generation === generation && record.failure.attemptsLeft === 0;
  return failed && ['failed', 'suspended', 'lost', 'cleanup_pending'].includes(record.state) ? record : undefined;
}
