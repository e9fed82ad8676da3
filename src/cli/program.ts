import { Command, type CommanderError, Option } from 'commander';
import { WindlassError } from '../errors.ts';
import { config } from './config.ts';
import { connect } from './connect.ts';
import { helpHint } from './context.ts';
import { deadLetters } from './dead-letters.ts';
import { doctor } from './doctor.ts';
import { events } from './events.ts';
import { exec } from './exec.ts';
import { explain } from './explain.ts';
import { extend } from './extend.ts';
import { get, listVerb } from './get.ts';
import { init } from './init.ts';
import { keys } from './keys.ts';
import { launch } from './launch.ts';
import { localCluster } from './local-cluster.ts';
import { logs } from './logs.ts';
import { formats } from './output.ts';
import { reconnect } from './reconnect.ts';
import { recover } from './recover.ts';
import { retry } from './retry.ts';
import { schema } from './schema.ts';
import { serve } from './serve.ts';
import { sweep } from './sweep.ts';
import { sweeps } from './sweeps.ts';
import { teardown } from './teardown.ts';
import { token } from './token.ts';
import { packageVersion, version } from './version.ts';
import { wait } from './wait.ts';
import { worker } from './worker.ts';

const verbs = [
  init,
  config,
  doctor,
  keys,
  token,
  worker,
  serve,
  localCluster,
  launch,
  teardown,
  get,
  listVerb,
  wait,
  events,
  logs,
  explain,
  exec,
  connect,
  reconnect,
  retry,
  deadLetters,
  extend,
  sweep,
  sweeps,
  recover,
  schema,
  version,
];

/**
 * The whole command line. Instead of ending the process it throws: wrong usage as `payload_invalid`, the end of `--help` and
 * `--version` as a CommanderError of exit code 0. Prints nothing about errors itself.
 */
export function createProgram(): Command {
  const program = new Command('windlass')
    .description('Launches, tears down and sweeps workspace instances on Kubernetes from Redis queues.')
    .option('--config <file>', 'configuration (default: $WINDLASS_CONFIG, then ./windlass.yaml)')
    .addOption(
      new Option('-o, --output <format>', 'how to print; without it a table at a terminal, JSON in a pipe').choices(formats),
    )
    .option('--json', 'the same as -o json')
    .option('-q, --quiet', 'no progress and no hints on stderr')
    .version(packageVersion(), '--version', 'print the version')
    .configureHelp({ showGlobalOptions: true })
    .addHelpText('after', '\nAn id that starts with "-" goes after "--": windlass get -- -my-id');
  silence(program);
  for (const register of verbs) register(program);
  for (const command of everyCommand(program)) silence(command);
  return program;
}

const everyCommand = (command: Command): Command[] => command.commands.flatMap((inner) => [inner, ...everyCommand(inner)]);

/** Errors are printed once, by main.ts, in the form that was asked for. */
function silence(command: Command): void {
  const asUsage = (error: CommanderError): never => {
    throw error.exitCode === 0 ? error : usageError(command, error);
  };
  command.exitOverride(asUsage).configureOutput({ outputError: () => undefined });
}

function usageError(command: Command, error: CommanderError): WindlassError {
  const message = error.code === 'commander.help' ? 'A verb is missing after this word.' : error.message.replace(/^error: /, '');
  return new WindlassError('payload_invalid', message, {
    issues: [{ path: 'arguments', message }],
    hint: helpHint(command),
  });
}
