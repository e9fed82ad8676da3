// `npm run chaos [-- --json] [--only WORD] [--lanes N] [--kills N --seed N] [--point POINT]`: the crash matrix on the embedded cluster.
import { parseArgs } from 'node:util';
import { crashMatrix, type KillResult } from '../support/chaos/matrix.ts';
import { startCluster } from '../support/cluster.ts';
import { percentiles } from '../support/percentiles.ts';

const { values } = parseArgs({
  options: {
    json: { type: 'boolean', default: false },
    only: { type: 'string', default: '' },
    lanes: { type: 'string', default: '6' },
    kills: { type: 'string' },
    point: { type: 'string' },
    seed: { type: 'string', default: '1' },
  },
});

const startedAt = Date.now();
const cluster = await startCluster();
const results = await crashMatrix({
  kubeconfig: cluster.kubeconfig,
  namespace: 'default',
  image: 'node:24',
  lanes: Number(values.lanes),
  only: values.only,
  ...(values.point === undefined ? {} : { point: values.point }),
  ...(values.kills === undefined ? {} : { share: { scenarios: 6, kills: Number(values.kills), seed: Number(values.seed) } }),
  told: (result) => process.stderr.write(`${lineOf(result)}\n`),
}).finally(() => cluster.close());

const count = (outcome: KillResult['outcome']) => results.filter((result) => result.outcome === outcome).length;
const summary = {
  passed: count('passed'),
  failed: count('failed'),
  notReached: count('not_reached'),
  resumedMs: percentiles(results.flatMap((result) => result.resumedMs ?? [])),
  seconds: Math.round((Date.now() - startedAt) / 1000),
};
if (values.json) process.stdout.write(`${JSON.stringify({ schema: 'windlass/v1', ...summary, kills: results })}\n`);
else {
  const { p50, p99 } = summary.resumedMs;
  process.stdout.write(
    `SIGKILL to resumed: p50 ${p50} ms, p99 ${p99} ms; ${summary.notReached} not reached; ${summary.seconds} s\n`,
  );
  process.stdout.write(`${summary.passed + summary.notReached} passed, ${summary.failed} failed\n`);
}
process.exitCode = summary.failed === 0 && summary.passed > 0 ? 0 : 1;

function lineOf({ scenario, point, outcome, error, resumedMs, durationMs }: KillResult): string {
  const took = `${durationMs} ms${resumedMs === undefined ? '' : `, resumed after ${resumedMs} ms`}`;
  return `${outcome.padEnd(11)} ${scenario}: killed ${point} (${took})${error === undefined ? '' : `\n  ${error}`}`;
}
