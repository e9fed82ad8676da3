import type { Command } from 'commander';
import { WindlassError } from '../errors.ts';
import type { DeadLetter, Redriven } from '../producers/dead-letters.ts';
import { verb } from './context.ts';
import { table } from './output.ts';

export function deadLetters(program: Command): void {
  const command = program
    .command('dead-letters')
    .description('jobs that failed for good, with their reason; or send them again')
    .option('--redrive <id>', 'send those of this job or instance again, as a new run')
    .option('--all', 'send all again that nothing newer has overtaken');
  verb<{ redrive?: string; all?: boolean }>(command, async (context, options) => {
    if (options.redrive !== undefined && options.all) {
      const issues = [{ path: '--all', message: 'cannot be given together with --redrive' }];
      throw new WindlassError('payload_invalid', 'Give either --redrive or --all.', { issues });
    }
    return context.withCaller(async ({ producer }) => {
      if (options.redrive !== undefined || options.all) {
        const items = await producer.redrive(options.redrive);
        const names = items.flatMap(({ newJobId }) => newJobId ?? []);
        await context.out.show({ document: { items }, text: () => redriveTable(items), names });
        return items.some((item) => item.error !== undefined) ? 1 : 0;
      }
      const items = await producer.deadLetters();
      await context.out.show({ document: { items }, text: () => letterTable(items), names: items.map(({ jobId }) => jobId) });
      return 0;
    });
  });
}

function letterTable(items: readonly DeadLetter[]): string {
  if (items.length === 0) return 'No dead letters.';
  const rows = items.map((item) => [
    item.queue,
    item.jobId,
    item.instanceId ?? '',
    item.state ?? '',
    item.failedAt,
    item.redrivable ? 'yes' : 'overtaken',
    item.reason,
  ]);
  return table(['QUEUE', 'JOB', 'INSTANCE', 'STATE', 'FAILED', 'REDRIVE', 'REASON'], rows);
}

function redriveTable(items: readonly Redriven[]): string {
  if (items.length === 0) return 'Nothing to send again.';
  const rows = items.map((item) => [item.jobId, item.instanceId ?? '', item.newJobId ?? item.error?.message ?? '']);
  return table(['JOB', 'INSTANCE', 'NEW JOB'], rows);
}
