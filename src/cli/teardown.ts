import type { Command } from 'commander';
import { checkedId, InstanceFailed, verb } from './context.ts';
import { failureOf, follow, type Glance, stageLine } from './follow.ts';
import { interruptible } from './interrupt.ts';
import { showAccepted, tellOfNoWorker } from './launch.ts';
import { clean } from './output.ts';
import { waitSeconds } from './values.ts';

interface TeardownOptions {
  readonly keepWorkspace?: boolean;
  readonly force?: boolean;
  readonly reason?: string;
  readonly wait?: boolean;
  readonly timeout?: string;
}

export function teardown(program: Command): void {
  const command = program
    .command('teardown <id>')
    .alias('rm')
    .description('remove an instance; --keep-workspace keeps its claim for a later launch')
    .option('--keep-workspace', 'suspend: keep the claim and the record')
    .option('--force', 'skip the cleanup script, the agent stop and the grace period')
    .option('--reason <text>', 'recorded with the removal')
    .option('--wait', 'wait until it is gone (or suspended)')
    .option('--timeout <seconds>', 'with --wait: how long at most');
  verb<TeardownOptions>(command, async (context, options, [id]) => {
    const instanceId = await checkedId(id);
    const timeoutSeconds = waitSeconds(options);
    const { keepWorkspace, force, reason } = options;
    const payload = {
      version: 1,
      instanceId,
      ...(keepWorkspace && { keepWorkspace }),
      ...(force && { force }),
      ...(reason !== undefined && { reason }),
    };
    return context.withCaller(async (caller) => {
      const accepted = await caller.producer.teardown(payload);
      if (!options.wait) return showAccepted(context, accepted, 'teardown');
      const interrupt = interruptible();
      context.out.say(`${clean(instanceId)}: teardown accepted (generation ${accepted.generation})`);
      await tellOfNoWorker(context, caller, 'teardown');
      try {
        const state = await follow(caller.inventory, instanceId, {
          judge: (seen) => removalEnd(seen, accepted.generation, keepWorkspace === true),
          onEvent: (event) => {
            const line = event.generation >= accepted.generation ? stageLine(event) : undefined;
            if (line) context.out.say(clean(line));
          },
          ...(timeoutSeconds === undefined ? {} : { timeoutSeconds }),
          signal: interrupt.signal,
        });
        const { generation, jobId, deduplicated } = accepted;
        await context.out.show({
          document: { instanceId, generation, jobId, state, deduplicated },
          text: () => `${clean(instanceId)}: ${state}`,
          names: [instanceId],
        });
        return 0;
      } catch (error) {
        if (!interrupt.signal.aborted) throw error;
        context.out.say('Detached: the teardown goes on.');
        await showAccepted(context, accepted, 'teardown');
        return 130;
      } finally {
        interrupt.dispose();
      }
    });
  });
}

/** A removal that fails is tried again by itself, unless its record says that no attempt is left. */
function removalEnd({ record }: Glance, generation: number, keep: boolean): string | undefined {
  if (!record) return 'gone';
  if (keep && record.state === 'suspended') return 'suspended';
  if (record.generation > generation) return record.removeUpTo >= generation ? undefined : 'gone';
  const failure = record.failure;
  if (record.state === 'cleanup_pending' && failure?.generation === generation && failure.attemptsLeft === 0)
    throw new InstanceFailed(failureOf(failure), undefined);
  return undefined;
}
