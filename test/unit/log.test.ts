import { execFile } from 'node:child_process';
import { promisify } from 'node:util';
import { expect, it } from 'vitest';
import { root } from '../support/root.ts';

/** Logs go straight to file descriptor 2, so only a process of its own can be read. */
async function logged(script: string): Promise<{ stdout: string; lines: Record<string, unknown>[] }> {
  const code = `import { createLogger } from './src/log.ts'; const log = createLogger('info'); ${script}`;
  const args = ['--import', 'tsx', '--input-type=module', '-e', code];
  const { stdout, stderr } = await promisify(execFile)(process.execPath, args, { cwd: root });
  return {
    stdout,
    lines: stderr
      .trim()
      .split('\n')
      .map((line) => JSON.parse(line)),
  };
}

it('C85: no password of a URL and nothing under a secret-looking key reaches the log, at any depth', {
  timeout: 60_000,
}, async () => {
  const { stdout, lines } = await logged(`
    const cause = new Error('redis://u:hunter2@h refused');
    log.info({ token: 'hunter2', a: { b: [{ sealedEnv: 'hunter2', url: 'rediss://u:hunter2@h' }] } }, 'to redis://:hunter2@h');
    log.error({ err: new Error('no redis://u:hunter2@h', { cause }) }, 'failed');
    log.error(cause);
    log.debug({}, 'not at this level');
  `);
  expect(stdout).toBe('');
  expect(JSON.stringify(lines)).not.toContain('hunter2');
  expect(lines).toMatchObject([
    {
      level: 'info',
      token: '[redacted]',
      a: { b: [{ sealedEnv: '[redacted]', url: 'rediss://***@h' }] },
      msg: 'to redis://***@h',
    },
    { level: 'error', err: { message: expect.stringContaining('redis://***@h') }, msg: 'failed' },
    { level: 'error', msg: 'redis://***@h refused' },
  ]);
});
