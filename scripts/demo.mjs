import { readFile } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { namespace } from './demo/config.mjs';
import { createPrinter } from './demo/printer.mjs';
import { descendants, stillRunning } from './demo/processes.mjs';
import { Services } from './demo/services.mjs';
import { startAll } from './demo/start.mjs';
import { Stopped, watchForStop } from './demo/stopped.mjs';
import { root } from './lib/paths.mjs';
import { Failure } from './lib/run-command.mjs';

const request = join(root, 'examples/requests/hello.yaml');
const command = 'echo "$GREETING"; echo "user $(id -u) in $(pwd), node $(node --version)"';

/**
 * The whole product once: Redis, the embedded cluster and a worker on free ports; one instance from examples/ launched,
 * used and torn down; the proof that nothing is left. Resolves with the exit code.
 */
export async function demo({ keep, json }) {
  const printer = createPrinter({ json, since: performance.now() });
  const stopped = watchForStop();
  const services = await Services.open();
  const world = { services, printer, leftovers: [], started: [] };
  try {
    await Promise.race([stopped.promise, tour(world, stopped, keep)]);
  } catch (error) {
    if (!(error instanceof Stopped)) await explain(services);
    await end(world);
    if (!(error instanceof Stopped)) throw error;
    process.stderr.write(`Windlass: ${error.message}; everything the demo started has ended.\n`);
    return error.exitCode;
  }
  await end(world);
  printer.done(world.leftovers);
  return world.leftovers.length === 0 ? 0 : 1;
}

async function tour(world, stopped, keep) {
  const { windlass, kube, dashboard, files } = await startAll(world);
  const { printer } = world;
  const instanceId = await launch(windlass, printer);

  printer.step(`windlass exec ${instanceId} -- sh -c '${command}'`);
  const { stdout, stderr, exitCode } = await windlass.run('exec', instanceId, '--', 'sh', '-c', command);
  printer.output(stdout, exitCode);
  if (exitCode !== 0) throw new Failure(`The command in the instance ended with ${exitCode}: ${stderr}`, 1);

  printer.step(`dashboard: ${dashboard.url}?token=${dashboard.token}`);
  if (keep) await untilStopped(printer, stopped, files);
  world.started.push(...world.services.pids.flatMap(descendants));
  printer.step(`windlass teardown ${instanceId} --wait`);
  await windlass.json('teardown', instanceId, '--wait');
  world.leftovers.push(...(await objectsAndRecords(windlass, kube, instanceId)));
}

/** Launches from examples/ and prints each stage when its event arrives; answers with the instance's id once it is ready. */
async function launch(windlass, printer) {
  printer.step('windlass launch -f examples/requests/hello.yaml');
  const { instanceId } = await windlass.json('launch', '-f', request);
  let failure;
  const use = (event) => {
    if (event.type === 'stage.done') printer.stage(event.stage, event.durationMs);
    if (event.type === 'failed') failure = event;
    return event.type === 'ready' || event.type === 'failed';
  };
  await windlass.each(use, 'events', instanceId, '-f');
  if (failure !== undefined) throw new Failure(`The launch failed: ${JSON.stringify(failure)}`, 1);
  return instanceId;
}

/** Runs on until it is asked to stop, which is here the ordinary end: the teardown follows. */
async function untilStopped(printer, stopped, { config, kubeconfig }) {
  printer.step(`all of it runs until Ctrl-C; for another terminal:\n  export WINDLASS_CONFIG=${config} KUBECONFIG=${kubeconfig}`);
  await stopped.once();
}

/** What of the instance is still in the cluster or on record; volumes go a moment after their claims. */
async function objectsAndRecords(windlass, kube, instanceId) {
  const deadline = performance.now() + 15_000;
  for (;;) {
    const objects = await kube.instanceObjects(namespace);
    if (objects.length === 0 || performance.now() > deadline) {
      const [{ items }, { exitCode }] = await Promise.all([windlass.json('list'), windlass.run('get', instanceId)]);
      // 3 = there is no such instance.
      return [
        ...objects,
        ...items.map((item) => `record ${item.instanceId}`),
        ...(exitCode === 3 ? [] : [`record ${instanceId}`]),
      ];
    }
    await delay(100);
  }
}

/** Ends every process and removes the folder; notes what should have gone by itself and did not. */
async function end({ services, started, leftovers }) {
  started.push(...services.pids.flatMap(descendants));
  const folders = await services.stop();
  leftovers.push(...folders.map((name) => `folder ${name}`), ...stillRunning(started).map(({ pid }) => `process ${pid}`));
  await services.close();
}

/** The worker's last words, before its log goes with the folder. */
async function explain({ folder }) {
  const log = await readFile(join(folder, 'worker.log'), 'utf8').catch((error) => (error.code === 'ENOENT' ? '' : String(error)));
  if (log !== '') process.stderr.write(`The worker's log ends:\n${log.slice(-4000)}\n`);
}
