import { join } from 'node:path';
import { expect, test } from 'vitest';
import { type CodeRow, codeTable, type Disposition } from '../../src/error-codes.ts';
import { root } from '../support/root.ts';

const meaning: Record<Disposition, string> = {
  caller: 'Refused at once: nothing was enqueued or written.',
  terminal: 'The launch cannot succeed: it is rolled back and not tried again.',
  retryable: 'Tried again with growing pauses, then kept as a dead letter.',
  wait: 'Not an error: the job waits, uses no attempt, and goes on when it can.',
  yielded: 'Somebody else goes on with it; this attempt writes nothing more.',
  bug: 'An internal rule was broken: it stops, deletes nothing and says so.',
};

/** `npx vitest run --project unit failure-codes -u` writes the page anew. */
test('docs/failure-codes.md lists every code as it is', async () => {
  await expect(page()).toMatchFileSnapshot(join(root, 'docs/failure-codes.md'));
});

function page(): string {
  const rows = Object.entries(codeTable) as [string, CodeRow][];
  const sections = (Object.keys(meaning) as Disposition[]).map((disposition) => {
    const lines = rows
      .filter(([, row]) => row.disposition === disposition)
      .map(
        ([code, row]) =>
          `| \`${code}\` | ${row.exit} | ${row.http} | ${row.retriable ? 'yes' : 'no'} | ${row.sentence} | ${row.hint} |`,
      );
    return `## ${disposition}\n\n${meaning[disposition]}\n\n| code | exit | HTTP | retriable | what it says | what to do |\n|---|---|---|---|---|---|\n${lines.join('\n')}\n`;
  });
  return `# Failure codes\n\nEvery failure carries one of these codes: \`error.code\` on the command line and over HTTP, \`failure.code\` of an instance.\n\`windlass exec\` has the exit code of the command it ran, and 125 for all of these.\nGenerated from src/error-codes.ts by test/unit/failure-codes.test.ts.\n\n${sections.join('\n')}`;
}
