import type { Command } from 'commander';
import type { LoadedConfig } from '../config/load.ts';
import { WindlassError } from '../errors.ts';
import type { Caller, Operator } from '../main.ts';
import { createOutput, type Output } from './output.ts';

export interface GlobalOptions {
  readonly config?: string;
  readonly output?: string;
  readonly json?: boolean;
  readonly quiet?: boolean;
}

/** What every verb works with. Everything heavy is loaded by the call that needs it: `--help` must be quick. */
export interface Context {
  readonly out: Output;
  load(): Promise<LoadedConfig>;
  /** Redis only: opens no kubeconfig and loads no Kubernetes client. */
  withCaller<T>(use: (caller: Caller) => Promise<T>): Promise<T>;
  withOperator<T>(use: (operator: Operator) => Promise<T>): Promise<T>;
}

/** A failed launch: the failure is the error, and the instance is shown with it (contract §2). */
export class InstanceFailed extends Error {
  readonly failure: WindlassError;
  readonly instance: unknown;
  constructor(failure: WindlassError, instance: unknown) {
    super(failure.message);
    this.failure = failure;
    this.instance = instance;
  }
}

type Run = (context: Context, options: Record<string, never>, args: readonly string[]) => Promise<number | undefined>;

/** Gives a command its action. The number that `run` answers is the exit code; a throw becomes one in main.ts. */
export function verb<O>(
  command: Command,
  run: (context: Context, options: O, args: readonly string[]) => Promise<number | undefined>,
): Command {
  return command.action(async () => {
    const context = createContext(command.optsWithGlobals<GlobalOptions>());
    try {
      process.exitCode = (await (run as Run)(context, command.opts(), command.args)) ?? 0;
    } catch (error) {
      throw withHelpOf(command, error);
    }
  });
}

const generalHelp = 'See `windlass --help`.';

/** Wrong usage names the help of its own verb. */
export function withHelpOf(command: Command, error: unknown): unknown {
  if (!(error instanceof WindlassError) || error.hint !== generalHelp) return error;
  return new WindlassError(error.code, error.message, { issues: error.issues, hint: helpHint(command) });
}

export function helpHint(command: Command): string {
  const words: string[] = [];
  for (let at: Command | null = command; at !== null; at = at.parent) words.unshift(at.name());
  return `See \`${words.join(' ')} --help\`.`;
}

function createContext(globals: GlobalOptions): Context {
  const load = async () => {
    const { loadConfig } = await import('../config/load.ts');
    return loadConfig(globals.config === undefined ? {} : { file: globals.config });
  };
  return {
    out: createOutput(globals),
    load,
    withCaller: async (use) => {
      const loaded = await load();
      const { openCaller } = await import('../main.ts');
      return closing(await openCaller(loaded), use);
    },
    withOperator: async (use) => {
      const loaded = await load();
      const { openOperator } = await import('../main.ts');
      return closing(await openOperator(loaded), use);
    },
  };
}

async function closing<R extends { close(): Promise<void> }, T>(resource: R, use: (resource: R) => Promise<T>): Promise<T> {
  try {
    return await use(resource);
  } finally {
    await resource.close();
  }
}

/** Wrong usage that commander cannot see: exit 2, nothing was sent. */
export function usage(path: string, message: string): WindlassError {
  return new WindlassError('payload_invalid', `${path}: ${message}`, {
    issues: [{ path, message }],
    hint: generalHelp,
  });
}

/** An id that can never exist is refused before anything is asked. */
export async function checkedId(id: string | undefined): Promise<string> {
  const { idProblem } = await import('../jobs/ids.ts');
  const problem = idProblem(id ?? '');
  if (problem !== undefined) throw usage('instanceId', problem);
  return id as string;
}
