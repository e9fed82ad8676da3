import { CommanderError } from 'commander';
import { asWindlassError } from '../errors.ts';
import { InstanceFailed } from './context.ts';
import { type Format, formats, showError } from './output.ts';
import { createProgram } from './program.ts';

/** Runs one command line and answers its exit code; results and errors have been printed by then. */
export async function run(args: readonly string[]): Promise<number> {
  const program = createProgram();
  if (args.length === 0) {
    program.outputHelp({ error: true });
    return 2;
  }
  try {
    await program.parseAsync([...args], { from: 'user' });
    return Number(process.exitCode ?? 0);
  } catch (thrown) {
    if (thrown instanceof CommanderError && thrown.exitCode === 0) return 0;
    const error = asWindlassError(thrown instanceof InstanceFailed ? thrown.failure : thrown);
    const asked = formatAsked(args);
    await showError(
      error,
      asked ?? 'text',
      asked !== undefined,
      thrown instanceof InstanceFailed && thrown.instance ? { instance: thrown.instance } : {},
    );
    return error.row.exit;
  }
}

/** Read from the words themselves, since a failure may come before they were understood. */
function formatAsked(args: readonly string[]): Format | undefined {
  const end = args.indexOf('--');
  const own = end < 0 ? args : args.slice(0, end);
  if (own.includes('--json')) return 'json';
  const text = own
    .map((word, index) => (/^(-o|--output)$/.test(word) ? own[index + 1] : /^(?:-o=?|--output=)(.+)$/.exec(word)?.[1]))
    .find((found) => found !== undefined);
  return formats.find((format) => format === text);
}
