import { execFileSync, spawnSync } from 'node:child_process';
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { repositoryScript } from '../../../src/jobs/repository.ts';

let dir: string;
let origin: string;
let workspace: string;
let different: Record<string, string>;

const env = () => ({
  PATH: process.env.PATH ?? '',
  HOME: join(dir, 'home'),
  GIT_CONFIG_NOSYSTEM: '1',
  GIT_AUTHOR_NAME: 'a',
  GIT_AUTHOR_EMAIL: 'a@b.example',
  GIT_COMMITTER_NAME: 'a',
  GIT_COMMITTER_EMAIL: 'a@b.example',
  ...different,
});
const git = (cwd: string, ...args: string[]) => execFileSync('git', args, { cwd, env: env(), stdio: 'pipe' }).toString();
const commit = (cwd: string, text: string) => {
  writeFileSync(join(cwd, 'file'), text);
  git(cwd, 'add', '.');
  git(cwd, 'commit', '-q', '-m', text);
};
/** As the prepare step runs it: by sh, in the workspace. */
function prepare(repository: { url: string; ref?: string }, rest = '') {
  const { status, stderr } = spawnSync('sh', ['-c', repositoryScript(repository) + rest], { cwd: workspace, env: env() });
  return { status, stderr: stderr.toString() };
}
const seen = () => readFileSync(join(workspace, 'file'), 'utf8');

beforeEach(() => {
  different = {};
  dir = mkdtempSync(join(tmpdir(), 'windlass-repository-'));
  mkdirSync(join(dir, 'home'));
  workspace = join(dir, 'work space');
  mkdirSync(join(workspace, 'lost+found'), { recursive: true });
  const source = join(dir, 'source');
  mkdirSync(source);
  git(source, 'init', '-q', '-b', 'main');
  commit(source, 'one');
  git(source, 'checkout', '-q', '-b', "it's");
  commit(source, 'two');
  git(source, 'checkout', '-q', 'main');
  origin = join(dir, "origin's.git");
  git(dir, 'clone', '-q', '--bare', source, origin);
});
afterEach(() => rmSync(dir, { recursive: true, force: true }));

it('clones into a workspace that is new (lost+found and all), then goes on with the script of the caller', () => {
  expect(prepare({ url: origin }, 'echo made > made')).toMatchObject({ status: 0 });
  expect(seen()).toBe('one');
  expect(readFileSync(join(workspace, 'made'), 'utf8')).toBe('made\n');
});

it('checks out the ref that was asked for, whatever characters it and the address have', () => {
  expect(prepare({ url: origin, ref: "it's" })).toMatchObject({ status: 0 });
  expect(seen()).toBe('two');
});

it('reuses a kept workspace of the same origin with its untracked files', () => {
  prepare({ url: origin });
  writeFileSync(join(workspace, 'untracked'), 'mine');
  expect(prepare({ url: origin, ref: "it's" })).toMatchObject({ status: 0 });
  expect([seen(), readFileSync(join(workspace, 'untracked'), 'utf8')]).toEqual(['two', 'mine']);
});

it('refuses a kept workspace of another origin, and changes nothing in it', () => {
  prepare({ url: origin });
  const { status, stderr } = prepare({ url: 'https://git.example/other.git' }, 'echo ran > ran');
  expect(status).toBe(1);
  expect(stderr).toContain('another repository');
  expect(seen()).toBe('one');
  expect(() => readFileSync(join(workspace, 'ran'))).toThrow();
});

it('fails, and does not run the script of the caller, when there is no such repository or ref', () => {
  for (const repository of [{ url: join(dir, 'absent.git') }, { url: origin, ref: 'absent' }]) {
    const { status } = prepare(repository, 'echo ran > ran');
    expect(status).not.toBe(0);
    expect(() => readFileSync(join(workspace, 'ran'))).toThrow();
  }
});

it('works in a volume whose root folder belongs to somebody else, as most provisioners make them', () => {
  // git's own switch for its tests: like a chown, but for who is not root as well.
  git(dir, 'config', '--global', 'safe.directory', origin);
  different = { GIT_TEST_ASSUME_DIFFERENT_OWNER: '1' };
  expect(prepare({ url: origin })).toMatchObject({ status: 0, stderr: '' });
  expect(seen()).toBe('one');
  expect(git(workspace, 'status', '--porcelain')).toBe('');
});
