import type { Command } from 'commander';
import { checkedId, usage, verb } from './context.ts';
import { showAccepted, waitUntilReady } from './launch.ts';
import { seconds } from './values.ts';

export function retry(program: Command): void {
  const command = program
    .command('retry <id>')
    .description('launch a failed instance again with the same request')
    .option('--wait', 'wait until it is ready or failed; Ctrl-C detaches')
    .option('--timeout <seconds>', 'with --wait: how long at most');
  verb<{ wait?: boolean; timeout?: string }>(command, async (context, options, [id]) => {
    const instanceId = await checkedId(id);
    if (options.timeout !== undefined && !options.wait) throw usage('--timeout', 'only makes sense with --wait');
    const timeout = options.timeout === undefined ? undefined : seconds('--timeout', options.timeout);
    return context.withCaller(async (caller) => {
      const accepted = await caller.producer.retry(instanceId);
      return options.wait ? waitUntilReady(context, caller, accepted, timeout) : showAccepted(context, accepted, 'retry');
    });
  });
}
