import { join } from 'node:path';
import { setup } from '../setup.mjs';
import { npm } from './packages.mjs';
import { root } from './paths.mjs';
import { Failure, run } from './run-command.mjs';

const commands = { check, demo, test, 'test:cluster': testCluster, bench, chaos, soak };
const everything = ['redis-server', 'bubblewrap'];

/** Sets up what the command needs, runs it, and resolves with the exit code. */
export async function main([name, ...args]) {
  const command = Object.hasOwn(commands, name ?? '') ? commands[name] : undefined;
  if (command === undefined) throw new Failure(`Give one of: ${Object.keys(commands).join(', ')}.`, 2);
  const install = !args.includes('--no-install');
  return command(
    args.filter((arg) => arg !== '--no-install'),
    install,
  );
}

/** Typecheck, lint, dead code, unit tests: all of them, whatever fails. */
async function check(_args, install) {
  await setup({ install });
  const [program, ...start] = npm();
  const script = (name) => () => run(program, [...start, 'run', '--silent', name], { check: false, stdout: 1 });
  const { vitest } = await import('./vitest.mjs');
  const steps = Object.entries({
    typecheck: script('typecheck'),
    lint: script('lint'),
    deadcode: script('deadcode'),
    'unit tests': () => vitest(['unit'], []),
  });
  let failed = 0;
  for (const [name, step] of steps) {
    const code = await step();
    process.stdout.write(code === 0 ? `passed: ${name}\n` : `failed: ${name}\n`);
    if (code !== 0) failed += 1;
  }
  process.stdout.write(`${steps.length - failed} passed, ${failed} failed\n`);
  return failed === 0 ? 0 : 1;
}

async function demo(args, install) {
  const unknown = args.filter((arg) => arg !== '--keep' && arg !== '--json');
  if (unknown.length > 0) throw new Failure(`The demo knows --keep, --json and --no-install, not ${unknown.join(' ')}.`, 2);
  await setup({ install, tools: everything });
  await (await import('../build.mjs')).build();
  return (await import('../demo.mjs')).demo({ keep: args.includes('--keep'), json: args.includes('--json') });
}

async function test(args, install) {
  await setup({ install, tools: everything });
  return (await import('./vitest.mjs')).vitest(['unit', 'redis', 'flow'], args);
}

async function testCluster(args, install) {
  if (!process.env.KUBECONFIG) {
    throw new Failure('KUBECONFIG is not set: name the kubeconfig of the cluster to test on.', 2);
  }
  await setup({ install, tools: everything });
  // Its one node starts Pods one after the other: more files at a time only wait for each other.
  return (await import('./vitest.mjs')).vitest(['cluster'], ['--maxWorkers=4', ...args]);
}

/**
 * `launch [rounds]`, `sweep [--json] [objects…]`: figures as ratios to a floor measured in the same run. `recover [instances]`:
 * Redis flushed under that many. Exit 1 when a limit is exceeded.
 */
async function bench([name = 'launch', ...args], install) {
  if (!['launch', 'sweep', 'recover'].includes(name))
    throw new Failure(`There are benches named launch, sweep and recover, not ${name}.`, 2);
  await setup({ install, tools: everything });
  await (await import('../build.mjs')).build();
  return run(process.execPath, ['--import', 'tsx', join(root, `test/bench/${name}.ts`), ...args], { check: false, stdout: 1 });
}

/** The crash matrix: a worker is killed at every effect of every job, another goes on. */
async function chaos(args, install) {
  await setup({ install, tools: everything });
  await (await import('../build.mjs')).build();
  return run(process.execPath, ['--import', 'tsx', join(root, 'test/chaos/main.ts'), ...args], { check: false, stdout: 1 });
}

/** Many launches while workers die, Redis restarts and the API server fails: nothing may be lost, leaked or done twice. */
async function soak(args, install) {
  await setup({ install, tools: everything });
  await (await import('../build.mjs')).build();
  return run(process.execPath, ['--import', 'tsx', join(root, 'test/soak/main.ts'), ...args], { check: false, stdout: 1 });
}
