import type { Command } from 'commander';
import { usage, verb } from './context.ts';
import { reportTable } from './sweeps.ts';
import { seconds } from './values.ts';

interface SweepOptions {
  readonly dryRun?: boolean;
  readonly ackMassDelete?: boolean;
  readonly wait?: boolean;
  readonly timeout?: string;
}

export function sweep(program: Command): void {
  const command = program
    .command('sweep [kinds...]')
    .description(
      'compare the inventory with the clusters and remove what is left over: orphans, ghosts, expired, config-maps, stuck or all',
    )
    .option('--dry-run', 'only say what would be removed')
    .option('--ack-mass-delete', 'go on although unusually many objects would be removed')
    .option('--wait', 'wait for the reports')
    .option('--timeout <seconds>', 'with --wait: how long at most', '300');
  verb<SweepOptions>(command, async (context, options, args) => {
    const { sweepKinds } = await import('../config/schema.ts');
    const known: readonly string[] = [...sweepKinds, 'all'];
    const wrong = args.find((kind) => !known.includes(kind));
    if (wrong !== undefined) throw usage('kinds', `must be of ${known.join(', ')}, not "${wrong}"`);
    const payload = {
      version: 1,
      kinds: args.length === 0 ? ['all'] : [...args],
      ...(options.dryRun && { dryRun: true }),
      ...(options.ackMassDelete && { ackMassDelete: true }),
    };
    const timeoutMs = seconds('--timeout', options.timeout ?? '300') * 1000;
    await context.withCaller(async ({ producer }) => {
      const { jobId } = await producer.sweep(payload);
      if (!options.wait)
        return context.out.show({ document: { jobId }, text: () => `sweep accepted (${jobId})`, names: [jobId] });
      context.out.say(`sweep accepted (${jobId}); waiting for its reports`);
      const { reports } = await producer.sweepReports(jobId, timeoutMs);
      await context.out.show({ document: { reports }, text: () => reportTable(reports) });
    });
  });
}
