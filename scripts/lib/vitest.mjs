import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { root } from './paths.mjs';
import { run } from './run-command.mjs';

/**
 * Runs these vitest projects and prints the totals as the last line. `args` go to vitest (file filters, -t).
 * Resolves with the exit code: 1 when anything failed, or when nothing at all ran.
 */
export async function vitest(projects, args) {
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
    return report(code, await readFile(file, 'utf8').then(JSON.parse, () => undefined));
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}

function report(code, summary) {
  const passed = summary?.passed ?? 0;
  const skipped = summary?.skipped ?? [];
  // A run that broke without a failed test (an error outside of any test, a crash) is a failure too.
  const failed = Math.max(summary?.failed ?? 0, code === 0 && passed > 0 ? 0 : 1);
  // What passed only at a second try is told: somebody has to look at it.
  for (const name of summary?.retried ?? []) process.stdout.write(`tried again: ${name}\n`);
  for (const { name, reason } of skipped) process.stdout.write(`skipped: ${name}: ${reason}\n`);
  process.stdout.write(`${passed} passed, ${failed} failed${skipped.length > 0 ? `, ${skipped.length} skipped` : ''}\n`);
  return failed === 0 ? 0 : 1;
}
