import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, it, onTestFinished } from 'vitest';
import { parse, stringify } from 'yaml';
import { checkClusters } from '../../../src/cli/checks.ts';
import { loadConfig } from '../../../src/config/load.ts';
import { createKeyring } from '../../../src/inventory/secrets.ts';
import { createRecipes } from '../../../src/jobs/recipes.ts';
import { windlass } from './run.ts';

const timeout = 60_000;

async function emptyFolder(): Promise<string> {
  const dir = await mkdtemp(join(tmpdir(), 'windlass-init-'));
  onTestFinished(() => rm(dir, { recursive: true, force: true }));
  return dir;
}

const kubeconfig = (namespace: string) =>
  stringify({
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'team: "blue"',
    contexts: [{ name: 'team: "blue"', context: { cluster: 'c', user: 'u', namespace } }],
    clusters: [{ name: 'c', cluster: { server: 'https://127.0.0.1:1' } }],
    users: [{ name: 'u', user: { token: 't' } }],
  });

describe('init', { timeout }, () => {
  it('writes a configuration that is valid at once, for the current context, with keys that fit', async () => {
    const cwd = await emptyFolder();
    await writeFile(join(cwd, 'kube'), kubeconfig('blue-team'));
    const made = await windlass(['init', '--json'], { cwd, env: { KUBECONFIG: join(cwd, 'kube'), HOME: cwd } });
    expect(made.json()).toMatchObject({
      created: ['windlass.env', 'windlass.yaml', 'profiles/node.yaml', 'profiles/minimal.yaml', 'profiles/python.yaml'],
      context: 'team: "blue"',
      namespace: 'blue-team',
    });
    expect(made.exitCode).toBe(0);
    const loaded = await loadConfig({ cwd });
    await checkClusters(loaded);
    expect(loaded.config.clusters.default).toMatchObject({
      kubeconfigPath: join(cwd, 'kube'),
      context: 'team: "blue"',
      namespace: 'blue-team',
    });
    expect(createKeyring(loaded.config.secrets, loaded.env, 'local').keyIds).toEqual(['k1']);
    expect((await stat(join(cwd, 'windlass.env'))).mode & 0o777).toBe(0o600);
    const env = (await readFile(join(cwd, 'windlass.env'), 'utf8')).trim().split('\n').slice(1);
    expect(env.map((line) => line.split('=')[0])).toEqual(['WINDLASS_SEALING_KEY', 'WINDLASS_SECRET_KEY']);
  });

  it('writes the shipped profiles as they are in examples/, delivered as there, and their templates are accepted', async () => {
    const cwd = await emptyFolder();
    await windlass(['init', '--json'], { cwd, env: { HOME: cwd } });
    const { config, templates } = await loadConfig({ cwd });
    const recipes = createRecipes(config, templates).all();
    expect(recipes.map(({ name, profile }) => [name, profile.agent.delivery])).toEqual([
      ['node', 'config_map'],
      ['minimal', 'init_image'],
      ['python', 'init_image'],
      ['scratch', 'config_map'],
    ]);
    const example = parse(await readFile('examples/windlass.yaml', 'utf8')).profiles;
    expect(Object.keys(example)).toEqual(recipes.map(({ name }) => name));
    for (const { name, profile } of recipes) expect(profile.agent, name).toMatchObject(example[name].agent ?? {});
    const files = await readdir(join(cwd, 'profiles'));
    expect(files.sort()).toEqual((await readdir('examples/profiles')).sort());
    for (const file of files)
      expect(await readFile(join(cwd, 'profiles', file), 'utf8'), file).toBe(
        await readFile(join('examples/profiles', file), 'utf8'),
      );
  });

  it('has every profile that a request in examples/ names', async () => {
    const cwd = await emptyFolder();
    await windlass(['init', '--json'], { cwd, env: { HOME: cwd } });
    const { profiles } = (await loadConfig({ cwd })).config;
    const requests = await readdir('examples/requests');
    expect(requests).toContain('scratch.yaml');
    for (const name of requests) {
      const request = parse(await readFile(join('examples/requests', name), 'utf8'));
      expect(Object.keys(profiles), name).toContain(request.profile);
    }
  });

  it('points at the embedded local cluster where there is no kubeconfig, and overwrites nothing', async () => {
    const cwd = await emptyFolder();
    await mkdir(join(cwd, 'profiles'));
    await writeFile(join(cwd, 'profiles/node.yaml'), 'mine');
    const made = await windlass(['init'], { cwd, env: { HOME: cwd } });
    expect(made).toMatchObject({ exitCode: 0, stderr: expect.stringContaining('windlass local-cluster') });
    expect((await loadConfig({ cwd })).config.clusters.default).toMatchObject({
      kubeconfigPath: join(cwd, '.windlass/local-cluster/kubeconfig'),
      namespace: 'default',
    });
    expect(await readFile(join(cwd, 'profiles/node.yaml'), 'utf8')).toBe('mine');
    const before = await readFile(join(cwd, 'windlass.env'), 'utf8');
    const again = await windlass(['init', '--json'], { cwd, env: { HOME: cwd } });
    expect(again.json().error).toMatchObject({
      code: 'config_invalid',
      issues: [{ path: join(cwd, 'windlass.yaml') }, { path: join(cwd, 'windlass.env') }],
    });
    expect(again.exitCode).toBe(2);
    expect(await readFile(join(cwd, 'windlass.env'), 'utf8')).toBe(before);
  });
});
