import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, it } from 'vitest';
import { checkClusters } from '../../../src/cli/checks.ts';
import { loadConfig } from '../../../src/config/load.ts';
import { startServer } from '../../../src/dashboard/serve.ts';
import { configFolder, validConfig } from '../config/folder.ts';
import { inProcess, windlass } from './run.ts';

// Each run is a process of its own: on a busy machine that takes seconds.
const timeout = 60_000;

describe('wrong usage ends with 2 and payload_invalid, before anything is read', { timeout }, () => {
  it.each([
    ['an unknown verb', ['frobnicate'], /unknown command/],
    ['an unknown option', ['list', '--colour'], /unknown option/],
    ['an id too many', ['teardown', 'a', 'b'], /too many arguments/],
    ['a missing id', ['teardown'], /missing required argument/],
    ['an unknown format', ['list', '-o', 'xml'], /Allowed choices are json, yaml, wide, name/],
    ['an unknown queue', ['worker', '--queues', 'launch,build'], /launch, teardown, sweep/],
    ['a limit out of range', ['list', '--limit', '501'], /from 1 to 500/],
    ['--timeout without --wait', ['launch', '--set', 'profile=node', '--timeout', '5'], /only makes sense with --wait/],
    ['no request at all', ['launch'], /give the request/],
    ['a request file that is not there', ['launch', '-f', '/nonexistent/request.yaml'], /cannot be read/],
    ['an unknown sweep', ['sweep', 'everything'], /must be of orphans/],
    [
      'a variable that is not set',
      ['launch', '--set', 'profile=node', '--secret-env', 'SURELY_NOT_SET'],
      /not set in your shell/,
    ],
    ['an id of outer spaces', ['get', ' a'], /must not start or end with a space/],
    ['an empty id', ['teardown', ''], /must not be empty/],
  ])('%s', async (_name, args, message) => {
    const run = await inProcess([...args, '--json']);
    expect(run.json()).toMatchObject({
      schema: 'windlass/v1',
      error: { code: 'payload_invalid', retriable: false, message: expect.stringMatching(message) },
    });
    expect(run.exitCode).toBe(2);
  });

  it.each([
    ['an unknown option', ['list', '--colour'], 'list'],
    ['an argument that is no good', ['list', '--limit', '501'], 'list'],
    ['a wrong word of a word', ['keys', 'old'], 'keys'],
    ['an exec without a command', ['exec', 'a'], 'exec'],
  ])('%s names the help of its verb', async (_name, args, verb) => {
    expect((await inProcess([...args, '--json'])).json().error).toMatchObject({ hint: `See \`windlass ${verb} --help\`.` });
  });

  it('no verb at all prints the help on stderr and ends with 2', async () => {
    const run = await windlass([]);
    expect(run).toMatchObject({ exitCode: 2, stdout: '', stderr: expect.stringContaining('Usage: windlass') });
  });

  it('a request of broken YAML names its file and every place that is broken', async () => {
    const run = await windlass(['launch', '-f', '-', '--json'], { stdin: '{profile: [' });
    expect(run.json().error).toMatchObject({
      code: 'payload_invalid',
      issues: expect.arrayContaining([{ path: 'stdin', message: expect.stringMatching(/not valid YAML.*line 1/) }]),
    });
    expect(run.exitCode).toBe(2);
  });
});

describe('a wrong configuration ends with 2 and config_invalid', { timeout }, () => {
  it('when there is none, saying what writes one', async () => {
    const run = await windlass(['list', '--json', '--config', '/nonexistent/windlass.yaml']);
    expect(run.json().error).toMatchObject({ code: 'config_invalid', hint: expect.stringContaining('windlass init') });
    expect(run.exitCode).toBe(2);
  });

  it('naming every problem with its path, on stdout with --json and in plain words on stderr without', async () => {
    const cwd = await configFolder({
      ...validConfig(),
      instalation: 'x',
      clusters: { default: { authMode: 'kubeconfig', kubeconfigPath: 'k', namespace: 'Not A Namespace' } },
    });
    const run = await windlass(['launch', '--set', 'profile=node', '--json'], { cwd });
    expect(run.exitCode).toBe(2);
    expect(run.json().error?.issues).toEqual(
      expect.arrayContaining([
        { path: 'instalation', message: 'is not a known key; did you mean "installation"?' },
        { path: 'clusters.default.namespace', message: expect.stringContaining('1 to 63') },
      ]),
    );
    const plain = await windlass(['launch', '--set', 'profile=node'], { cwd });
    expect(plain).toMatchObject({ exitCode: 2, stdout: '' });
    expect(plain.stderr).toMatch(/not valid \(2 problems\)\.\n.*\n? {2}(instalation|clusters).*\n {2}.*\nHint: /);
  });

  it('for the worker when the kubeconfig is missing, before Redis is asked', async () => {
    const cwd = await configFolder({ ...validConfig(), redis: { url: 'redis://127.0.0.1:1' } });
    const run = await windlass(['worker', '--json'], { cwd });
    expect(run.json().error).toMatchObject({
      code: 'config_invalid',
      issues: expect.arrayContaining([expect.objectContaining({ path: 'clusters.default.kubeconfigPath' })]),
    });
    expect(run.exitCode).toBe(2);
  });

  it.each([
    ['is a folder', 'folder'],
    ['is no kubeconfig', 'windlass.yaml'],
  ])('for the worker when the kubeconfig %s', async (_name, kubeconfigPath) => {
    const dir = await configFolder({
      ...validConfig(),
      clusters: { default: { authMode: 'kubeconfig', kubeconfigPath, namespace: 'sandboxes' } },
    });
    await mkdir(join(dir, 'folder'));
    await expect(checkClusters(await loadConfig({ cwd: dir }))).rejects.toMatchObject({
      code: 'config_invalid',
      issues: expect.arrayContaining([expect.objectContaining({ path: expect.stringMatching(/^clusters\.default\./) })]),
    });
  });

  it('for the doctor too, who goes on to say what else is wrong', async () => {
    const cwd = await configFolder({ ...validConfig(), redis: { url: 'redis://127.0.0.1:1' } });
    const run = await windlass(['doctor', '--json'], { cwd });
    const checks = run.json().checks as { key: string; success: boolean; error: { code: string } | null }[];
    const failed = Object.fromEntries(checks.filter((check) => !check.success).map((check) => [check.key, check.error?.code]));
    expect(failed).toMatchObject({
      redis: 'redis_unavailable',
      keys: 'secret_key_missing',
      'kubeconfig.default': 'config_invalid',
    });
    expect(run.exitCode).toBe(2);
  });

  it('for serve, when it would listen beyond this machine without tokens', async () => {
    const loaded = await loadConfig({ cwd: await configFolder({ ...validConfig(), http: { host: '0.0.0.0', port: 0 } }) });
    // Refused before the inventory is touched, so none is needed.
    await expect(startServer({ caller: { loaded } as never })).rejects.toMatchObject({
      code: 'config_invalid',
      issues: [{ path: 'http.tokens' }],
    });
  });
});

describe('no Redis', { timeout }, () => {
  it.each([[['list']], [['launch', '--set', 'profile=node']]])('ends %j with 5 and redis_unavailable', async (args) => {
    const cwd = await configFolder({ ...validConfig(), redis: { url: 'redis://127.0.0.1:1' } });
    const run = await windlass([...args, '--json'], { cwd });
    expect(run.json().error).toMatchObject({ code: 'redis_unavailable', retriable: true });
    expect(run.exitCode).toBe(5);
  });

  it('ends exec with 125, because the other exit codes are the command’s', async () => {
    const cwd = await configFolder({ ...validConfig(), redis: { url: 'redis://127.0.0.1:1' } });
    const run = await windlass(['exec', 'a', '--', 'true'], { cwd });
    expect(run).toMatchObject({ exitCode: 125, stdout: '', stderr: expect.stringContaining('Redis cannot be reached') });
  });
});
