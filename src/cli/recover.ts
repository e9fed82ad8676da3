import type { Command } from 'commander';
import { verb } from './context.ts';
import { table } from './output.ts';

export function recover(program: Command): void {
  const command = program
    .command('recover')
    .description('rebuild the records of what exists in the clusters, after Redis lost them')
    .option('--dry-run', 'only say what would be rebuilt');
  verb<{ dryRun?: boolean }>(command, async (context, options) =>
    context.withOperator(async (operator) => {
      const report = await operator.recover({ dryRun: options.dryRun === true });
      const { items, recovered, skipped, failed, dryRun } = report;
      const rows = items.map((item) => [
        item.outcome,
        item.cluster,
        item.instanceId ?? item.name,
        item.state ?? '',
        item.message ?? item.rule,
      ]);
      await context.out.show({
        document: { recovered, skipped, failed, dryRun, items: [...items] },
        text: () =>
          `${recovered} recovered, ${skipped} skipped, ${failed} failed${dryRun ? ' (dry run)' : ''}\n${table(['OUTCOME', 'CLUSTER', 'ID', 'STATE', 'WHY'], rows)}`,
        names: items.filter((item) => item.outcome === 'recovered').map((item) => item.instanceId ?? item.name),
      });
      return failed > 0 ? 1 : 0;
    }),
  );
}
