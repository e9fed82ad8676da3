import type { Command } from 'commander';
import { verb } from './context.ts';
import { interruptible } from './interrupt.ts';
import { whole } from './values.ts';

export function serve(program: Command): void {
  const command = program
    .command('serve')
    .description('the dashboard: instances, and the queues at /queues')
    .option('--port <n>', 'instead of http.port (0 = a free one)');
  verb<{ port?: string }>(command, async (context, options) => {
    const port = options.port === undefined ? {} : { port: whole('--port', options.port, 0, 65535) };
    const { startServer } = await import('../dashboard/serve.ts');
    const interrupt = interruptible();
    try {
      await context.withCaller(async (caller) => {
        const server = await startServer({ caller, ...port });
        try {
          context.out.line({ url: server.url });
          context.out.say(`Dashboard at ${server.url} until Ctrl-C.`);
          await interrupt.interrupted;
        } finally {
          await server.close();
        }
      });
    } finally {
      interrupt.dispose();
    }
  });
}
