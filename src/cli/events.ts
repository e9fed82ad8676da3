import type { Command } from 'commander';
import { checkedId, usage, verb } from './context.ts';
import { drain, existing, follow, glance } from './follow.ts';
import { interruptible } from './interrupt.ts';
import { whole } from './values.ts';

export function events(program: Command): void {
  const command = program
    .command('events <id>')
    .description('the event feed of an instance, one JSON object a line')
    .option('-f, --follow', 'go on until it is gone')
    .option('--after <seq>', 'only events after this number', '0');
  verb<{ follow?: boolean; after: string }>(command, async (context, options, [id]) => {
    const instanceId = await checkedId(id);
    if (['yaml', 'wide', 'name'].includes(context.out.format)) throw usage('--output', 'events are printed as JSON lines only');
    const after = whole('--after', options.after, 0, 999_999_999);
    return context.withCaller(async ({ inventory }) => {
      const print = (event: object) => context.out.line({ ...event });
      const seen = await glance(inventory, instanceId);
      if (!options.follow || seen.tombstone) {
        const last = await drain(inventory, instanceId, after, print);
        // Events may outlive the record; only when there is neither was there never such an instance.
        if (last === after && !seen.record && !seen.tombstone) await existing(inventory, instanceId);
        return 0;
      }
      await existing(inventory, instanceId);
      const interrupt = interruptible();
      try {
        await follow(inventory, instanceId, {
          judge: ({ record }) => (record ? undefined : true),
          onEvent: print,
          after,
          signal: interrupt.signal,
        });
        return 0;
      } catch (error) {
        if (interrupt.signal.aborted) return 0;
        throw error;
      } finally {
        interrupt.dispose();
      }
    });
  });
}
