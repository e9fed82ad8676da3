// `npm run bench -- sweep [--json] [COUNT…]`: what one pass of each kind of sweep costs, as a ratio to its floor.
import { type ChildProcess, fork } from 'node:child_process';
import { once } from 'node:events';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { parseArgs } from 'node:util';
import { createWorld } from '../support/world.ts';
import type { CrowdOrder } from './crowd.ts';
import { never } from './sample.ts';
import { measurePasses, type PassFigures } from './sweep-passes.ts';

const { values, positionals } = parseArgs({ allowPositionals: true, options: { json: { type: 'boolean', default: false } } });
const counts = positionals.length === 0 ? [10_000, 100_000] : positionals.map(Number);
if (counts.some((count) => !Number.isInteger(count) || count < 2)) {
  process.stderr.write('Give the numbers of objects as whole numbers, for example: sweep 10000 100000\n');
  process.exit(2);
}

const limits = { ratio: 2, rssMiB: 512, blockMs: 500 };
const runs: { count: number; seedMs: number; passes: PassFigures[] }[] = [];
for (const count of counts) runs.push(await run(count));

const over = runs.flatMap(({ count, passes }) =>
  passes.flatMap((pass) => excesses(pass).map((what) => `${pass.kind} of ${count}: ${what}`)),
);
if (values.json) process.stdout.write(`${JSON.stringify({ schema: 'windlass/v1', bench: 'sweep', limits, runs, over })}\n`);
else
  process.stdout.write(
    `${runs.flatMap(({ count, passes }) => passes.map((pass) => lineOf(count, pass))).join('\n')}\n${over.map((what) => `OVER ${what}\n`).join('')}`,
  );
process.exitCode = over.length === 0 ? 0 : 1;

async function run(count: number) {
  const dir = await mkdtemp(join(tmpdir(), 'windlass-bench-'));
  const kubeconfig = join(dir, 'kubeconfig');
  const world = await createWorld({ kubeconfig, namespace: 'default', image: 'node:24', config: { sweeps: never } });
  const crowd = fork(join(import.meta.dirname, 'crowd.ts'), { execArgv: ['--import', 'tsx'] });
  try {
    const startedAt = performance.now();
    const { url, port, pid } = world.redis;
    await answered(crowd, { kubeconfig, redis: { url, port, pid }, count });
    const seedMs = Math.round(performance.now() - startedAt);
    return { count, seedMs, passes: await measurePasses(world) };
  } finally {
    if (crowd.connected) crowd.disconnect();
    if (crowd.exitCode === null) await once(crowd, 'exit');
    await world.stop();
    await rm(dir, { recursive: true, force: true });
  }
}

async function answered(crowd: ChildProcess, order: CrowdOrder): Promise<void> {
  const there = once(crowd, 'message');
  const ended = once(crowd, 'exit').then(() => Promise.reject(new Error('the process with the objects ended')));
  crowd.send(order);
  await Promise.race([there, ended]);
  ended.catch(() => undefined);
}

function excesses({ ratio, maxRssMiB, maxBlockMs, calls, pages }: PassFigures): string[] {
  return [
    ...(ratio > limits.ratio ? [`takes ${ratio} times its floor`] : []),
    ...(maxRssMiB > limits.rssMiB ? [`${maxRssMiB} MiB`] : []),
    ...(maxBlockMs > limits.blockMs ? [`the event loop stood still for ${maxBlockMs} ms`] : []),
    ...(calls > pages + 5 ? [`${calls} API calls for ${pages} pages`] : []),
  ];
}

function lineOf(count: number, pass: PassFigures): string {
  const { kind, objects, pages, calls, floorMs, passMs, ratio, floorCpuMs, passCpuMs, maxBlockMs, maxRssMiB } = pass;
  return `${count} ${kind.padEnd(11)} looked at ${objects}: ${passMs} ms, floor ${floorMs} ms, ratio ${ratio} (computing ${passCpuMs} and ${floorCpuMs} ms); ${calls} calls for ${pages} pages; longest block ${maxBlockMs} ms; ${maxRssMiB} MiB`;
}
