import { describe, expect, it } from 'vitest';
import { loadConfig } from '../../../src/config/load.ts';
import { sha256 } from '../../../src/names.ts';
import { configFolder, validConfig } from '../config/folder.ts';
import { inProcess } from './run.ts';

describe('documents', () => {
  it('of every kind say which contract they follow, in JSON and in YAML', async () => {
    for (const args of [['version'], ['keys', 'new'], ['token', 'create'], ['schema', 'launch']]) {
      expect((await inProcess(args)).json(), args.join(' ')).toMatchObject({ schema: 'windlass/v1' });
    }
    expect((await inProcess(['version', '-o', 'yaml'])).stdout).toMatch(/^schema: windlass\/v1\n/);
  });

  it('config show prints defaults and overrides, but no secret', async () => {
    const cwd = await configFolder({ ...validConfig(), http: { tokens: [{ name: 'ci', sha256: sha256('t'), role: 'viewer' }] } });
    const run = await inProcess(['config', 'show', '--config', `${cwd}/windlass.yaml`], {
      WINDLASS__REDIS__URL: 'redis://me:hunter2@127.0.0.1:7',
    });
    expect(run.json().config).toMatchObject({ redis: { url: 'redis://***@127.0.0.1:7' }, worker: { concurrency: 50 } });
    expect(run.json().config).toMatchObject({ sweeps: { orphans: { every: 60 } } });
    expect(run.stdout).not.toMatch(/hunter2|[0-9a-f]{64}/);
  });

  it('token create prints a token whose hash the configuration takes', async () => {
    const { token, entry } = (
      await inProcess(['token', 'create', '--name', 'ci', '--role', 'caller', '--owner', 'a', '--expires', '30d'])
    ).json() as never as { token: string; entry: { sha256: string } };
    expect(entry.sha256).toBe(sha256(token));
    const cwd = await configFolder({ ...validConfig(), http: { tokens: [entry] } });
    expect((await loadConfig({ cwd })).config.http.tokens).toEqual([
      expect.objectContaining({ name: 'ci', role: 'caller', owners: ['a'] }),
    ]);
  });

  it('schema prints JSON Schemas of all that goes in and comes out', async () => {
    const { schemas } = (await inProcess(['schema'])).json() as never as {
      schemas: Record<string, { $schema: string; properties: object }>;
    };
    expect(Object.keys(schemas)).toEqual(['config', 'launch', 'teardown', 'sweep', 'event', 'instance']);
    for (const one of Object.values(schemas)) expect(one.$schema).toBe('https://json-schema.org/draft/2020-12/schema');
    expect(Object.keys(schemas.launch!.properties)).toEqual(
      expect.arrayContaining(['version', 'instanceId', 'profile', 'env', 'secretEnv', 'repository', 'command']),
    );
  });

  it('--help names every verb of this version and none of a later one', async () => {
    const { stdout, exitCode } = await inProcess(['--help']);
    expect(exitCode).toBe(0);
    const verbs = [...stdout.slice(stdout.indexOf('Commands:')).matchAll(/^ {2}([a-z-]+)/gm)].map((match) => match[1]);
    expect(verbs).toEqual([
      'init',
      'config',
      'doctor',
      'keys',
      'token',
      'worker',
      'serve',
      'local-cluster',
      'launch',
      'teardown',
      'get',
      'list',
      'wait',
      'events',
      'logs',
      'explain',
      'exec',
      'connect',
      'reconnect',
      'retry',
      'dead-letters',
      'extend',
      'sweep',
      'sweeps',
      'recover',
      'schema',
      'version',
      'help',
    ]);
  });
});
