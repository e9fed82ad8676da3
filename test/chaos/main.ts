// `npm run chaos [-- --json] [--only WORD] [--lanes N] [--kills N --seed N] [--point POINT]`: the crash matrix on the embedded
// cluster. With CI=true a kill that ended wrong is done once more, and named.
import { parseArgs } from 'node:util';
import { crashMatrix, type KillResult, undisturbed } from '../support/chaos/matrix.ts';
import { interruption } from '../support/interrupt.ts';
import { percentiles } from '../support/percentiles.ts';

const { values } = parseArgs({
  options: {
    json: { type: 'boolean', default: false },
    only: { type: 'string', default: '' },
    lanes: { type: 'string', default: '10' },
    kills: { type: 'string' },
    point: { type: 'string' },
    seed: { type: 'string', default: '1' },
  },
});

const startedAt = Date.now();
const { signal, exit } = interruption();
const results = await crashMatrix({
  lanes: Number(values.lanes),
  only: values.only,
  ...(values.point === undefined ? {} : { point: values.point }),
  ...(values.kills === undefined ? {} : { share: { kills: Number(values.kills), seed: Number(values.seed) } }),
  tryAgain: process.env.CI === 'true',
  signal,
  told: (result) => process.stderr.write(`${lineOf(result)}\n`),
}).catch((error: unknown) => {
  if (!signal.aborted) throw error;
  process.stderr.write('interrupted; all that was started has ended\n');
  return exit(1);
});

const kills = results.filter(({ point }) => point !== undisturbed);
const summary = {
  passed: results.filter(({ outcome }) => outcome === 'passed').length,
  failed: results.filter(({ outcome }) => outcome === 'failed').length,
  kills: kills.length,
  /** Of each scenario: how many effects a worker was killed at. */
  points: countBy(kills),
  resumedMs: percentiles(results.flatMap((result) => result.resumedMs ?? [])),
  seconds: Math.round((Date.now() - startedAt) / 1000),
};
if (values.json) process.stdout.write(`${JSON.stringify({ schema: 'windlass/v1', ...summary, matrix: results })}\n`);
else {
  const { p50, p99 } = summary.resumedMs;
  for (const { scenario, point, triedAgain } of results)
    if (triedAgain !== undefined) process.stdout.write(`tried again: ${scenario}: ${point}: ${firstLine(triedAgain)}\n`);
  for (const { scenario, point, error } of results)
    if (error !== undefined) process.stdout.write(`failed: ${scenario}: ${point}: ${firstLine(error)}\n`);
  process.stdout.write(
    `${kills.length} kills and stops; SIGKILL to resumed: p50 ${p50} ms, p99 ${p99} ms; ${summary.seconds} s\n`,
  );
  process.stdout.write(`${summary.passed} passed, ${summary.failed} failed\n`);
}
exit(summary.failed === 0 && kills.length > 0 ? 0 : 1);

function lineOf({ scenario, point, outcome, error, resumedMs, durationMs, triedAgain }: KillResult): string {
  const what = point === undisturbed ? 'met nothing new, and was killed at its end' : point;
  const took = `${durationMs} ms${resumedMs === undefined ? '' : `, resumed after ${resumedMs} ms`}`;
  return `${outcome} ${scenario}: ${what} (${took})${[triedAgain, error].filter(Boolean).map((text) => `\n  ${text}`)}`;
}

function firstLine(text: string): string {
  return text.split('\n', 1)[0] ?? '';
}

function countBy(of: readonly KillResult[]): Record<string, number> {
  const counts: Record<string, number> = {};
  for (const { scenario } of of) counts[scenario] = (counts[scenario] ?? 0) + 1;
  return counts;
}
