import type { Command } from 'commander';
import { checkedId, verb } from './context.ts';
import { interruptible } from './interrupt.ts';
import { whole } from './values.ts';

export function connect(program: Command): void {
  const command = program
    .command('connect <id>')
    .description('a loopback proxy to the agent: prints its address and token, and stays until Ctrl-C')
    .option('--port <n>', 'local port; 0 or none = a free one');
  verb<{ port?: string }>(command, async (context, options, [id]) => {
    const instanceId = await checkedId(id);
    const port = options.port === undefined ? {} : { localPort: whole('--port', options.port, 0, 65535) };
    const interrupt = interruptible();
    try {
      await context.withOperator(async (operator) => {
        const agent = await operator.connectAgent(instanceId, { ...port, signal: interrupt.signal });
        try {
          const { url, token } = agent;
          await context.out.show({ document: { url, token }, text: () => `${url}\nAuthorization: Bearer ${token}` });
          context.out.say('Connected until Ctrl-C.');
          await interrupt.interrupted;
        } finally {
          await agent.close();
        }
      });
    } catch (error) {
      if (!interrupt.signal.aborted) throw error;
    } finally {
      interrupt.dispose();
    }
  });
}
