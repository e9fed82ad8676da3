import { afterEach, beforeEach, describe, expect, it, vi } from 'vitest';
import { clean, createOutput, showError, table } from '../../../src/cli/output.ts';
import { WindlassError } from '../../../src/errors.ts';

let stdout = '';
let stderr = '';
beforeEach(() => {
  [stdout, stderr] = ['', ''];
  vi.spyOn(process.stdout, 'write').mockImplementation((chunk) => {
    stdout += chunk;
    return true;
  });
  vi.spyOn(process.stderr, 'write').mockImplementation((chunk) => {
    stderr += chunk;
    return true;
  });
});
afterEach(() => vi.restoreAllMocks());

const result = { document: { items: [1] }, text: (wide: boolean) => (wide ? 'WIDE' : 'narrow'), names: ['a', 'b'] };

describe('a result', () => {
  it.each([
    [{ json: true }, '{\n  "schema": "windlass/v1",\n  "items": [\n    1\n  ]\n}\n'],
    [{ output: 'yaml' }, 'schema: windlass/v1\nitems:\n  - 1\n'],
    [{ output: 'wide' }, 'WIDE\n'],
    [{ output: 'name' }, 'a\nb\n'],
  ])('asked for as %j', async (options, expected) => {
    await createOutput(options).show(result);
    expect(stdout).toBe(expected);
  });

  it('without -o is JSON in a pipe and a table at a terminal', async () => {
    const tty = process.stdout.isTTY;
    try {
      process.stdout.isTTY = false;
      await createOutput({}).show(result);
      process.stdout.isTTY = true;
      await createOutput({}).show(result);
    } finally {
      process.stdout.isTTY = tty;
    }
    expect(stdout).toMatch(/^\{.*\}\nnarrow\n$/s);
  });

  it('is a line for each object of a stream', () => {
    const out = createOutput({});
    out.line({ seq: 1 });
    out.line({ seq: 2 });
    expect(stdout).toBe('{"schema":"windlass/v1","seq":1}\n{"schema":"windlass/v1","seq":2}\n');
  });

  it('-q keeps remarks to itself', () => {
    createOutput({ quiet: true }).say('nothing');
    createOutput({}).say('something');
    expect(stderr).toBe('something\n');
  });
});

const atTerminal = { format: 'text', asked: false, quiet: false } as const;

describe('a failure', () => {
  const error = new WindlassError('payload_invalid', 'The request is not valid: env.A: must not be empty; (root): is odd', {
    issues: [
      { path: 'env.A', message: 'must not be empty' },
      { path: '', message: 'is odd' },
    ],
    hint: 'Look again.',
  });

  it('is one document on stdout when JSON was asked for', async () => {
    await showError(error, { format: 'json', asked: true, quiet: false }, { instance: { instanceId: 'a' } });
    expect(JSON.parse(stdout)).toEqual({
      schema: 'windlass/v1',
      error: { code: 'payload_invalid', message: error.message, retriable: false, issues: error.issues, hint: 'Look again.' },
      instance: { instanceId: 'a' },
    });
    expect(stderr).toBe('');
  });

  it('is a sentence with each issue once and the hint on stderr otherwise', async () => {
    await showError(error, { format: 'json', asked: false, quiet: false });
    expect(stdout).toBe('');
    expect(stderr).toBe('windlass: The request is not valid.\n  env.A: must not be empty\n  (root): is odd\nHint: Look again.\n');
  });

  it('has no hint when quiet, and shows the end of the log that is its evidence', async () => {
    const log = Array.from({ length: 30 }, (_, line) => `line ${line}\u001b[1m`).join('\n');
    await showError(new WindlassError('prepare_failed', 'It ended.', { evidence: { log } }), { ...atTerminal, quiet: true });
    const shown = stderr.split('\n');
    expect(shown[0]).toBe('windlass: It ended.');
    expect(shown.slice(1, -1)).toEqual(Array.from({ length: 10 }, (_, line) => `  | line ${line + 20} [1m`));
  });

  it('brings no terminal sequence of a cluster to the terminal', async () => {
    await showError(new WindlassError('policy_denied', 'no\u001b[2Jthing\u202e', { hint: '' }), atTerminal);
    expect(stderr).toBe('windlass: no [2Jthing \n');
    expect(clean('a\tb\u0007\u2028')).toBe('a b  ');
  });
});

it('a table is as wide as its widest cells, with no space at line ends', () => {
  expect(
    table(
      ['ID', 'STATE'],
      [
        ['long-name', 'ready'],
        ['a', ''],
      ],
    ),
  ).toBe('ID         STATE\nlong-name  ready\na');
});
