import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { root } from './paths.mjs';
import { run } from './run-command.mjs';

/**
 * Runs these vitest projects and prints the totals as the last line. `args` go to vitest (file filters, -t).
 * Resolves with the exit code: 1 when anything failed, or when nothing at all ran.
 *
 * With `CI=true`, files with a failed test run once more, whole and in a new process: these suites wait for real processes,
 * and on a crowded machine one may come too late. A single test could not be repeated: the objects of its first try are there.
 */
export async function vitest(projects, args) {
  let summary = await runOnce(projects, args);
  const again = process.env.CI === 'true' && summary.broken === 0 ? summary.failedFiles : [];
  if (again.length > 0) summary = merge(summary, await runOnce(projects, [...args.filter(isOption), ...again]));
  return report(summary);
}

/** File filters of the first run would add their files to those that failed. */
const isOption = (arg, at, args) => arg.startsWith('-') || ['-t', '--testNamePattern'].includes(args[at - 1]);

async function runOnce(projects, args) {
  const dir = await mkdtemp(join(tmpdir(), 'windlass-test-'));
  const file = join(dir, 'summary.json');
  try {
    const code = await run(
      process.execPath,
      [
        join(root, 'node_modules/vitest/vitest.mjs'),
        'run',
        ...projects.flatMap((name) => ['--project', name]),
        '--reporter=default',
        `--reporter=${join(root, 'scripts/lib/summary-reporter.mjs')}`,
        ...args,
      ],
      { check: false, stdout: 1, env: { ...process.env, WINDLASS_TEST_SUMMARY: file } },
    );
    const nothing = { passed: 0, failed: [], failedFiles: [], skipped: [], broken: 0 };
    const summary = await readFile(file, 'utf8').then(JSON.parse, () => nothing);
    // A run that broke without a failed test (an error outside of any test, a crash) is a failure too.
    const ended = code === 0 && summary.passed > 0;
    return ended || summary.failed.length + summary.broken > 0 ? summary : { ...summary, broken: 1 };
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

/** The files of the second run count as it found them; what passed in them before is not counted twice. */
function merge(first, second) {
  const { failed, passedInFailedFiles } = first;
  return {
    ...second,
    passed: first.passed - passedInFailedFiles + second.passed,
    skipped: [...first.skipped.filter(({ file }) => !first.failedFiles.includes(file)), ...second.skipped],
    retried: failed,
  };
}

function report({ passed, failed, skipped, broken, retried = [] }) {
  // What passed only at a second try is told: somebody has to look at it.
  for (const name of retried) process.stdout.write(`tried again: ${name}\n`);
  for (const { name, reason } of skipped) process.stdout.write(`skipped: ${name}: ${reason}\n`);
  for (const name of failed) process.stdout.write(`failed: ${name}\n`);
  const failures = failed.length + broken;
  process.stdout.write(`${passed} passed, ${failures} failed${skipped.length > 0 ? `, ${skipped.length} skipped` : ''}\n`);
  return failures === 0 ? 0 : 1;
}
