import type { Command } from 'commander';
import { checkedId, verb } from './context.ts';
import { showAccepted, waitUntilReady } from './launch.ts';
import { waitSeconds } from './values.ts';

export function retry(program: Command): void {
  const command = program
    .command('retry <id>')
    .description('launch a failed instance again with the same request')
    .option('--wait', 'wait until it is ready or failed; Ctrl-C detaches')
    .option('--timeout <seconds>', 'with --wait: how long at most');
  verb<{ wait?: boolean; timeout?: string }>(command, async (context, options, [id]) => {
    const instanceId = await checkedId(id);
    const timeout = waitSeconds(options);
    return context.withCaller(async (caller) => {
      const accepted = await caller.producer.retry(instanceId);
      return options.wait ? waitUntilReady(context, caller, accepted, timeout) : showAccepted(context, accepted, 'retry');
    });
  });
}
