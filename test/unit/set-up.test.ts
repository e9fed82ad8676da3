import { spawnSync } from 'node:child_process';
import { mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { delimiter, join } from 'node:path';
import { afterAll, describe, expect, test } from 'vitest';
import { root } from '../support/root.ts';

const bin = mkdtempSync(join(tmpdir(), 'windlass-path-'));
afterAll(() => rmSync(bin, { recursive: true, force: true }));

function script(name: string, args: readonly string[], env: Record<string, string> = {}, nodeArgs: readonly string[] = []) {
  const clean = { HOME: bin, PATH: bin, ...env };
  const { status, stdout, stderr } = spawnSync(process.execPath, [...nodeArgs, join(root, 'scripts', name), ...args], {
    env: clean,
    encoding: 'utf8',
  });
  return { status, stdout, stderr };
}

/** A folder for the PATH in which exactly these programs are found. */
function programs(...names: string[]): string {
  const dir = mkdtempSync(join(bin, 'programs-'));
  for (const name of names) symlinkSync('/bin/true', join(dir, name));
  return dir;
}

describe('the set-up', () => {
  test('an older Node is turned away with a sentence that says what to do, before anything else', () => {
    const preload = join(bin, 'older.mjs');
    writeFileSync(preload, `Object.defineProperty(process.versions, 'node', { value: '18.20.4' });`);
    const { status, stdout, stderr } = script('run.mjs', ['test'], {}, ['--import', preload]);
    expect([status, stdout]).toEqual([2, '']);
    expect(stderr).toMatch(/needs Node\.js 20\.19 or later; this is 18\.20\.4/);
    expect(stderr).toContain('nvm install');
  });

  test('--no-install names the exact command when Redis is missing, and installs nothing', () => {
    const { status, stderr } = script('setup.mjs', ['--no-install']);
    expect(status).toBe(2);
    expect(stderr).toMatch(/redis-server .*missing/);
    expect(stderr).toContain('sudo apt-get install -y --no-install-recommends redis-server bubblewrap');
  });

  test('without apt or the right to use it, it says the same instead of failing half-way', () => {
    const { status, stderr } = script('setup.mjs', []);
    expect(status).toBe(2);
    expect(stderr).toContain('sudo apt-get install -y --no-install-recommends redis-server');
  });

  test('without bubblewrap it goes on in path mode and says so', () => {
    const { status, stderr } = script('setup.mjs', ['--no-install'], { PATH: programs('redis-server') });
    expect(status).toBe(0);
    expect(stderr).toMatch(/bubblewrap is not installed.*path mode/);
  });

  test('in CI a missing sandbox is a failure, unless it is switched off on purpose', () => {
    const PATH = programs('redis-server');
    expect(script('setup.mjs', ['--no-install'], { PATH, CI: 'true' }).status).toBe(2);
    expect(script('setup.mjs', ['--no-install'], { PATH, CI: 'true', WINDLASS_SANDBOX: 'none' }).status).toBe(0);
  });

  test('with everything there it is silent', () => {
    const PATH = [programs('redis-server', 'bwrap'), bin].join(delimiter);
    expect(script('setup.mjs', [], { PATH })).toEqual({ status: 0, stdout: '', stderr: '' });
  });

  test('an unknown command and a missing kubeconfig are usage errors', () => {
    expect(script('run.mjs', ['frobnicate'])).toMatchObject({ status: 2, stderr: expect.stringContaining('Give one of') });
    expect(script('run.mjs', ['test:cluster'])).toMatchObject({
      status: 2,
      stderr: expect.stringContaining('KUBECONFIG is not set'),
    });
    expect(script('run.mjs', ['demo', '--frob'], { PATH: programs('redis-server', 'bwrap') })).toMatchObject({ status: 2 });
  });
});
