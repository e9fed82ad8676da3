import { type Command, Option } from 'commander';
import { WindlassError } from '../errors.ts';
import type { InstanceEvent } from '../inventory/types.ts';
import { checkedId, InstanceFailed, verb } from './context.ts';
import { drain, existing, failureOf, follow, glance, rests, stageLine } from './follow.ts';
import { interruptible } from './interrupt.ts';
import { launchEnd, showReady } from './launch.ts';
import { clean } from './output.ts';
import { seconds } from './values.ts';

export function wait(program: Command): void {
  const command = program
    .command('wait <id>')
    .description('wait until an instance is ready, or gone')
    .addOption(new Option('--for <what>', 'what to wait for').choices(['ready', 'gone']).makeOptionMandatory())
    .option('--timeout <seconds>', 'how long at most');
  verb<{ for: 'ready' | 'gone'; timeout?: string }>(command, async (context, options, [id]) => {
    const instanceId = await checkedId(id);
    const timeout = options.timeout === undefined ? {} : { timeoutSeconds: seconds('--timeout', options.timeout) };
    const { toInstance } = await import('../inventory/view.ts');
    return context.withCaller(async ({ inventory }) => {
      const interrupt = interruptible();
      const now = await glance(inventory, instanceId);
      const first = now.record;
      const common = {
        onEvent: (event: InstanceEvent) => {
          // What earlier launches under this id went through is `windlass events`.
          const line = event.generation < (first?.generation ?? 0) ? undefined : stageLine(event);
          if (line) context.out.say(clean(line));
        },
        // How an instance came to where it rests is `windlass events`.
        ...(rests(now) ? { after: await drain(inventory, instanceId, 0, () => undefined) } : {}),
        ...timeout,
        signal: interrupt.signal,
      };
      try {
        if (options.for === 'gone') {
          const seen = await follow(inventory, instanceId, { ...common, judge: (seen) => (seen.record ? undefined : seen) });
          if (!seen.tombstone) throw new WindlassError('instance_not_found', `There is no instance "${instanceId}".`);
          await context.out.show({
            document: { instanceId, state: 'gone' },
            text: () => `${clean(instanceId)}: gone`,
            names: [instanceId],
          });
          return 0;
        }
        await existing(inventory, instanceId);
        const record = await follow(inventory, instanceId, {
          ...common,
          judge: (seen) => launchEnd(seen, seen.record?.generation ?? 0),
        });
        if (record.state !== 'ready') throw new InstanceFailed(failureOf(record.failure!), toInstance(record));
        await showReady(context, record);
        return 0;
      } catch (error) {
        if (interrupt.signal.aborted) return 130;
        throw error;
      } finally {
        interrupt.dispose();
      }
    });
  });
}
