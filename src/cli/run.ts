import { CommanderError } from 'commander';
import { asWindlassError } from '../errors.ts';
import { InstanceFailed } from './context.ts';
import { formats, type Output, showError } from './output.ts';
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
    await showError(
      error,
      outputAsked(args),
      thrown instanceof InstanceFailed && thrown.instance ? { instance: thrown.instance } : {},
    );
    return error.row.exit;
  }
}

/** Read from the words themselves, since a failure may come before they were understood. */
function outputAsked(args: readonly string[]): Pick<Output, 'format' | 'asked' | 'quiet'> {
  const end = args.indexOf('--');
  const own = end < 0 ? args : args.slice(0, end);
  const quiet = own.includes('-q') || own.includes('--quiet');
  if (own.includes('--json')) return { format: 'json', asked: true, quiet };
  const text = own
    .map((word, index) => (/^(-o|--output)$/.test(word) ? own[index + 1] : /^(?:-o=?|--output=)(.+)$/.exec(word)?.[1]))
    .find((found) => found !== undefined);
  const format = formats.find((known) => known === text);
  return { format: format ?? 'text', asked: format !== undefined, quiet };
}
