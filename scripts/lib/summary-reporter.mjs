import { writeFileSync } from 'node:fs';

/** Writes {passed, failed, skipped: [{name, reason}], retried: [name]} to $WINDLASS_TEST_SUMMARY when a run has ended. */
export default class SummaryReporter {
  onTestRunEnd(modules, unhandledErrors) {
    const summary = { passed: 0, failed: unhandledErrors.length, skipped: [], retried: [] };
    for (const module of modules) {
      // A file that cannot be loaded has errors and no tests.
      summary.failed += module.errors().length;
      for (const suite of module.children.allSuites()) summary.failed += suite.errors().length;
      for (const test of module.children.allTests()) count(test, summary);
    }
    writeFileSync(process.env.WINDLASS_TEST_SUMMARY, JSON.stringify(summary));
  }
}

function count(test, summary) {
  const { state, note } = test.result();
  if ((test.diagnostic()?.retryCount ?? 0) > 0) summary.retried.push(test.fullName);
  if (state === 'passed') summary.passed += 1;
  else if (state === 'skipped') summary.skipped.push({ name: test.fullName, reason: note ?? 'no reason given' });
  else summary.failed += 1;
}
