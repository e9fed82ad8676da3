import type { Command } from 'commander';
import type { SweepEntry, SweepReport } from '../jobs/context.ts';
import { verb } from './context.ts';
import { table } from './output.ts';

export function sweeps(program: Command): void {
  const command = program
    .command('sweeps [id]')
    .description('the last sweep reports; with the id of one, what it saw of each object');
  verb(command, async (context, _options, [id]) => {
    await context.withCaller(async ({ producer }) => {
      const items = await producer.lastSweeps(id);
      if (id !== undefined && items.length === 0) {
        const { WindlassError } = await import('../errors.ts');
        throw new WindlassError('instance_not_found', `There is no report of a sweep "${id}" (any more).`, {
          hint: '`windlass sweeps` shows the last ones.',
        });
      }
      const text = () => (id === undefined ? reportTable(items) : items.map(reportText).join('\n\n'));
      await context.out.show({ document: { items }, text, names: [...new Set(items.map((report) => report.id))] });
    });
    return undefined;
  });
}

export function reportTable(reports: readonly SweepReport[]): string {
  if (reports.length === 0) return 'No sweep reports.';
  const rows = reports.map((report) => [
    report.id,
    report.startedAt,
    report.sweep,
    report.cluster,
    String(report.objects),
    String(report.candidates),
    `${report.deleted + report.acted}${report.dryRun ? ' (dry run)' : ''}`,
    report.stopped ? `${report.stopped.code}: ${report.stopped.message}` : '',
  ]);
  return table(['ID', 'STARTED', 'SWEEP', 'CLUSTER', 'OBJECTS', 'CANDIDATES', 'ACTED', 'STOPPED'], rows);
}

function reportText(report: SweepReport): string {
  const rows = report.entries.map((entry) => [
    entry.kind,
    entry.name,
    `${entry.ageSeconds}s`,
    entry.rule,
    entry.verdict,
    entry.action,
    evidenceText(entry),
  ]);
  const more = report.more > 0 ? `\n… and ${report.more} more` : '';
  const lines =
    rows.length === 0 ? 'Everything is in order.' : table(['KIND', 'NAME', 'AGE', 'RULE', 'VERDICT', 'ACTION', 'EVIDENCE'], rows);
  return `${reportTable([report])}\n${lines}${more}`;
}

const evidenceText = (entry: SweepEntry): string =>
  Object.entries(entry.evidence)
    .map(([name, value]) => `${name}=${typeof value === 'string' ? value : JSON.stringify(value)}`)
    .join(' ');
