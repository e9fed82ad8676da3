import { writeFileSync } from 'node:fs';

/**
 * Writes to $WINDLASS_TEST_SUMMARY when a run has ended: `passed` (a count), `failed` (tests, suites and files by name, each
 * with the first line of what was wrong), `failedFiles` (paths), `passedInFailedFiles`, `skipped` ({file, name, reason}),
 * `broken` (errors outside of any test).
 */
export default class SummaryReporter {
  onTestRunEnd(modules, unhandledErrors) {
    const summary = {
      passed: 0,
      failed: [],
      failedFiles: [],
      passedInFailedFiles: 0,
      skipped: [],
      broken: unhandledErrors.length,
    };
    for (const module of modules) add(summary, module.moduleId, resultsOf(module));
    writeFileSync(process.env.WINDLASS_TEST_SUMMARY, JSON.stringify(summary));
  }
}

function add(summary, file, { passed, failed, skipped }) {
  summary.passed += passed;
  summary.failed.push(...failed);
  summary.skipped.push(...skipped.map((one) => ({ file, ...one })));
  if (failed.length === 0) return;
  summary.failedFiles.push(file);
  summary.passedInFailedFiles += passed;
}

function resultsOf(module) {
  // A file that cannot be loaded has errors and no tests; a suite's hooks fail beside its tests.
  const failed = module.errors().map((error) => named(module.moduleId, error));
  for (const suite of module.children.allSuites()) failed.push(...suite.errors().map((error) => named(suite.fullName, error)));
  const skipped = [];
  let passed = 0;
  for (const test of module.children.allTests()) {
    const { state, note, errors } = test.result();
    if (state === 'passed') passed += 1;
    else if (state === 'skipped') skipped.push({ name: test.fullName, reason: note ?? 'no reason given' });
    else failed.push(named(test.fullName, errors?.[0]));
  }
  return { passed, failed, skipped };
}

const named = (name, error) => `${name}: ${String(error?.message ?? 'no error given').split('\n', 1)[0]}`;
