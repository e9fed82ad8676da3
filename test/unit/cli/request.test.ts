import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it, vi } from 'vitest';
import { checkedId } from '../../../src/cli/context.ts';
import { readRequest, secretsFrom } from '../../../src/cli/request.ts';
import { seconds, setPath } from '../../../src/cli/values.ts';
import { configFolder } from '../config/folder.ts';

async function requestFile(text: string | Uint8Array): Promise<string> {
  const file = join(await configFolder({}), 'request.yaml');
  await writeFile(file, text);
  return file;
}

describe('a request', () => {
  it('is YAML or JSON with --set laid over it', async () => {
    const file = await requestFile('version: 1\nprofile: node\nenv: {A: one}\n');
    const sets = ['env.B=two', 'labels.user\\.windlass\\.dev/team=core', 'command=["sh", "-c", "true"]', 'instanceId="007"'];
    expect(await readRequest(file, sets)).toEqual({
      version: 1,
      profile: 'node',
      env: { A: 'one', B: 'two' },
      labels: { 'user.windlass.dev/team': 'core' },
      command: ['sh', '-c', 'true'],
      instanceId: '007',
    });
  });

  it('may be made of --set alone', async () => {
    expect(await readRequest(undefined, ['profile=node'])).toEqual({ version: 1, profile: 'node' });
  });

  it.each([
    ['two documents', 'version: 1\n---\nversion: 1\n', /2 YAML documents/],
    ['a list', '- version: 1\n', /must be a map/],
    ['nothing', '', /empty/],
    ['a duplicate key', 'version: 1\nversion: 1\n', /unique/],
  ])('of %s is payload_invalid', async (_name, text, message) => {
    await expect(readRequest(await requestFile(text), [])).rejects.toMatchObject({
      code: 'payload_invalid',
      issues: [{ message: expect.stringMatching(message) }],
    });
  });

  it('of more than a mebibyte is payload_too_large, unread', async () => {
    await expect(readRequest(await requestFile(`# ${'x'.repeat(1 << 20)}`), [])).rejects.toMatchObject({
      code: 'payload_too_large',
    });
  });

  it('never takes a key that would change every object of the process', async () => {
    expect(() => setPath({}, '__proto__.polluted', true)).toThrow();
    expect(await readRequest(await requestFile('{"__proto__": {"polluted": true}}'), [])).toHaveProperty(['__proto__']);
    expect(({} as Record<string, unknown>).polluted).toBeUndefined();
  });
});

describe('secrets', () => {
  it('come from variables and files, by name, and as they are', async () => {
    vi.stubEnv('TOKEN_A', 'a\nb');
    const file = await requestFile('line\n');
    expect(await secretsFrom(['TOKEN_A'], [`FILE_B=${file}`])).toEqual({ TOKEN_A: 'a\nb', FILE_B: 'line\n' });
    vi.unstubAllEnvs();
  });

  it('that cannot be read are all named at once', async () => {
    const binary = await requestFile(new Uint8Array([0xff, 0xfe]));
    await expect(secretsFrom(['SURELY_NOT_SET'], ['B=/nonexistent/file', `C=${binary}`])).rejects.toMatchObject({
      code: 'payload_invalid',
      issues: [{ path: '--secret-env SURELY_NOT_SET' }, { path: '--secret-file B' }, { path: '--secret-file C' }],
    });
  });
});

describe('an id', () => {
  it.each(['', '.', '..', 'x'.repeat(129), ' a', 'a ', 'a\u0007b', 'a\u200bb', 'a\u2028b', 'e\u0301'])(
    '%j is refused',
    async (id) => {
      await expect(checkedId(id)).rejects.toMatchObject({ code: 'payload_invalid', issues: [{ path: 'instanceId' }] });
    },
  );

  it.each(['-a', '/', '%', '{}', ':*', 'a b', '\u{1f389}'.repeat(128)])('%j is taken', async (id) => {
    expect(await checkedId(id)).toBe(id);
  });
});

it.each([
  ['90', 90],
  ['90s', 90],
  ['5m', 300],
  ['2h', 7200],
  ['30d', 2_592_000],
])('%s is %i seconds', (text, expected) => {
  expect(seconds('--timeout', text)).toBe(expected);
});

it.each(['', '-1', '1.5', '1w', 'NaN', '99999999999'])('%j is no duration', (text) => {
  expect(() => seconds('--timeout', text)).toThrow('--timeout');
});
