import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { root } from '../lib/paths.mjs';
import { Failure } from '../lib/run-command.mjs';

export const cli = join(root, 'dist/cli/main.js');

/** The command line as a user has it, on the configuration of this run. */
export function createWindlass({ config, env, services }) {
  const start = (args) => services.spawn(process.execPath, [cli, '--config', config, ...args], env);

  /** Runs a verb to its end: {exitCode, stdout, stderr}. */
  async function run(...args) {
    const child = start(args);
    const ended = new Promise((resolve) => child.once('close', (code) => resolve(code)));
    const [stdout, stderr, exitCode] = await Promise.all([textOf(child.stdout), textOf(child.stderr), ended]);
    return { exitCode, stdout, stderr };
  }

  /** The document that a verb prints; anything but exit code 0 is a failure. */
  async function json(...args) {
    const { exitCode, stdout, stderr } = await run('-o', 'json', ...args);
    if (exitCode !== 0) throw new Failure(`\`windlass ${args.join(' ')}\` ended with ${exitCode}:\n${stdout}${stderr}`, 1);
    return JSON.parse(stdout);
  }

  /** Gives each NDJSON object that a verb prints to `use`, until that answers true or the verb ends. */
  async function each(use, ...args) {
    const child = start(args);
    child.stderr.resume();
    for await (const line of createInterface({ input: child.stdout })) {
      if (use(JSON.parse(line)) === true) break;
    }
    child.kill('SIGTERM');
  }

  return { run, json, each };
}

async function textOf(stream) {
  let text = '';
  for await (const chunk of stream.setEncoding('utf8')) text += chunk;
  return text;
}
