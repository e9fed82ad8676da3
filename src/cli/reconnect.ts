import type { Command } from 'commander';
import type { InstanceEvent, InstanceRecord } from '../inventory/types.ts';
import type { Caller } from '../main.ts';
import { type Context, checkedId, InstanceFailed, verb } from './context.ts';
import { drain, failureOf, follow, type Glance, stageLine } from './follow.ts';
import { interruptible } from './interrupt.ts';
import { launchEnd, showAccepted, showReady, tellOfNoWorker } from './launch.ts';
import { clean } from './output.ts';
import { waitSeconds } from './values.ts';

type Accepted = Awaited<ReturnType<Caller['producer']['reconnect']>>;

export function reconnect(program: Command): void {
  const command = program
    .command('reconnect <id>')
    .description('take an instance up again: the exact Pod, or a new one on its claim when it is lost')
    .option('--wait', 'wait until it is ready again; Ctrl-C detaches')
    .option('--timeout <seconds>', 'with --wait: how long at most');
  verb<{ wait?: boolean; timeout?: string }>(command, async (context, options, [id]) => {
    const instanceId = await checkedId(id);
    const timeout = waitSeconds(options);
    return context.withCaller(async (caller) => {
      // Events before the request belong to earlier runs, and say nothing of this one.
      const after = await drain(caller.inventory, instanceId, 0, () => undefined);
      const accepted = await caller.producer.reconnect(instanceId);
      return options.wait ? waitForRun(context, caller, accepted, after, timeout) : showAccepted(context, accepted, 'reconnect');
    });
  });
}

/** A ready instance stays ready while it is reconnected: only the run's last event tells that it is over. */
async function waitForRun(
  context: Context,
  caller: Caller,
  accepted: Accepted,
  after: number,
  timeoutSeconds?: number,
): Promise<number> {
  const { instanceId, generation } = accepted;
  const { toInstance } = await import('../inventory/view.ts');
  const interrupt = interruptible();
  let over = false;
  context.out.say(`${clean(instanceId)}: reconnect accepted (generation ${generation})`);
  await tellOfNoWorker(context, caller, 'launch');
  try {
    const record = await follow(caller.inventory, instanceId, {
      judge: (seen) => runEnd(seen, generation, over),
      onEvent: (event) => {
        over = over || endsRun(event);
        const line = stageLine(event);
        if (line) context.out.say(clean(line));
      },
      after,
      ...(timeoutSeconds === undefined ? {} : { timeoutSeconds }),
      signal: interrupt.signal,
    });
    if (record.failure !== null) throw new InstanceFailed(failureOf(record.failure), toInstance(record));
    await showReady(context, record);
    return 0;
  } catch (error) {
    if (!interrupt.signal.aborted) throw error;
    context.out.say('Detached: the reconnect goes on.');
    await showAccepted(context, accepted, 'reconnect');
    return 130;
  } finally {
    interrupt.dispose();
  }
}

const endsRun = ({ type, attemptsLeft }: InstanceEvent): boolean =>
  type === 'reconnected' || type === 'ready' || (type === 'failed' && attemptsLeft === undefined);

function runEnd(seen: Glance, generation: number, over: boolean): InstanceRecord | undefined {
  const ended = launchEnd(seen, generation);
  // While its end is not seen, `ready` only says that it was so before.
  return over || ended?.state !== 'ready' ? ended : undefined;
}
