import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { newKeys } from '../../src/inventory/secrets.ts';
import { startRedis, type TestRedis } from '../support/redis.ts';
import { type Finished, inProcess, start, windlass } from '../unit/cli/run.ts';

// Each run is a process of its own: on a busy machine that takes seconds.
const timeout = 90_000;
const podTemplate = stringify({
  apiVersion: 'v1',
  kind: 'PodTemplate',
  template: { spec: { containers: [{ name: 'agent', image: 'node:24' }] } },
});
const kubeconfig = stringify({
  apiVersion: 'v1',
  kind: 'Config',
  'current-context': 'nobody',
  contexts: [{ name: 'nobody', context: { cluster: 'nobody', user: 'nobody' } }],
  clusters: [{ name: 'nobody', cluster: { server: 'https://127.0.0.1:1' } }],
  users: [{ name: 'nobody', user: { token: 'none' } }],
});

let redis: TestRedis;
let client: Redis;
let dir: string;
/** In this process, which is a hundred times quicker than the real command; what the command adds is tested beside it. */
const run = (
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
  form: readonly string[] = ['--json'],
): Promise<Finished> => inProcess([...form, '--config', join(dir, 'windlass.yaml'), ...args], env);

beforeAll(async () => {
  redis = await startRedis();
  client = new Redis(redis.url);
  dir = await mkdtemp(join(tmpdir(), 'windlass-cli-'));
  const keys = newKeys();
  await writeFile(
    join(dir, 'windlass.yaml'),
    stringify({
      redis: { url: redis.url },
      // No caller verb may look at it: it is not there.
      clusters: { default: { authMode: 'kubeconfig', kubeconfigPath: 'kubeconfig', namespace: 'sandboxes' } },
      profiles: { node: { podTemplate, workspace: { mode: 'empty_dir' } } },
      secrets: {
        sealing: [{ id: 's1', publicKey: keys.sealing.publicJwk, privateKeyEnv: 'WINDLASS_SEALING_KEY' }],
        atRest: [{ id: 'k1', keyEnv: 'WINDLASS_SECRET_KEY' }],
      },
    }),
  );
  await writeFile(
    join(dir, 'windlass.env'),
    `WINDLASS_SEALING_KEY=${JSON.stringify(keys.sealing.privateJwk)}\nWINDLASS_SECRET_KEY=${keys.atRest}\n`,
  );
});

afterAll(async () => {
  client.disconnect();
  await redis.stop();
  await rm(dir, { recursive: true, force: true });
});

it('the real command, with stdin and stdout as pipes, answers JSON', { timeout }, async () => {
  const launched = await windlass(['launch', '-f', '-'], {
    cwd: dir,
    stdin: '{"version": 1, "profile": "node", "instanceId": "piped"}',
  });
  expect(launched.json()).toMatchObject({ schema: 'windlass/v1', instanceId: 'piped', deduplicated: false });
  expect(launched).toMatchObject({ exitCode: 0, stderr: '' });
  const listed = await windlass(['ls', '-o', 'wide'], { cwd: dir, env: { NO_COLOR: '1' } });
  expect(listed.stdout).toMatch(/^ID +OWNER +STATE .*\npiped +default +requested +node +default /);
});

it('a caller verb loads no Kubernetes client', { timeout }, async () => {
  const hook =
    'export async function resolve(name,context,next){if(name.startsWith("@kubernetes/"))throw new Error("loaded "+name);return next(name,context)}';
  const data = (code: string) => `data:text/javascript,${encodeURIComponent(code)}`;
  const env = { NODE_OPTIONS: `--import ${data(`import{register}from"node:module";register(${JSON.stringify(data(hook))})`)}` };
  const watched = { cwd: dir, env, fromSources: true };
  expect(await windlass(['list'], watched)).toMatchObject({ exitCode: 0, stderr: '' });
  expect((await windlass(['doctor', '--json'], watched)).stdout).toContain('loaded @kubernetes/client-node');
});

describe('launch', { timeout }, () => {
  it('answers at once without any kubeconfig; the same again is deduplicated, other content a conflict', async () => {
    const args = ['launch', '--set', 'profile=node', '--set', 'instanceId=one'];
    const first = await run(args);
    expect(first.exitCode).toBe(0);
    expect(first.json()).toMatchObject({
      schema: 'windlass/v1',
      instanceId: 'one',
      state: 'requested',
      deduplicated: false,
      jobId: expect.stringMatching(/^launch-[0-9a-f]{20}-\d+-\d+$/),
    });
    const again = await run(args);
    expect(again.json()).toEqual({ ...first.json(), deduplicated: true });
    const other = await run([...args, '--set', 'env.A=b']);
    expect(other.json().error).toMatchObject({ code: 'instance_conflict' });
    expect(other.exitCode).toBe(1);
  });

  it('retry refuses what has not failed; reconnect of a launch that nobody took up yet is that launch', async () => {
    const launched = await run(['launch', '--set', 'profile=node', '--set', 'instanceId=early']);
    const refused = await run(['retry', 'early']);
    expect(refused.json().error).toMatchObject({ code: 'instance_conflict' });
    expect(refused.exitCode).toBe(1);
    const again = await run(['reconnect', 'early']);
    expect(again.json()).toEqual({ ...launched.json(), deduplicated: true });
    expect((await run(['reconnect', 'early', '--timeout', '1'])).exitCode).toBe(2);
    const waited = await run(['reconnect', 'early', '--wait', '--timeout', '1']);
    expect(waited.json().error).toMatchObject({ code: 'wait_timeout' });
  });

  it('keeps secrets out of Redis in plain text, however they are given', async () => {
    await writeFile(join(dir, 'secret.txt'), 'from-a-file-5c1d');
    const sealed = await run(
      [
        'launch',
        '--set',
        'profile=node',
        '--set',
        'instanceId=sealed',
        '--secret-env',
        'API_TOKEN',
        '--secret-file',
        `FILE_TOKEN=${join(dir, 'secret.txt')}`,
      ],
      {
        API_TOKEN: 'from-the-shell-9f2e',
      },
    );
    expect(sealed.exitCode).toBe(0);
    const everything = await dump(client);
    expect(everything).toContain('sealed');
    expect(everything).not.toMatch(/from-the-shell-9f2e|from-a-file-5c1d/);
  });

  it.each([
    ['an unknown profile', '{"version": 1, "profile": "nope"}', 'profile_unknown', 'profile'],
    ['neither profile nor app', '{"version": 1}', 'payload_invalid', 'profile'],
    ['an unknown key', '{"version": 1, "profile": "node", "profil": "x"}', 'payload_invalid', 'profil'],
    ['a bad id', '{"version": 1, "profile": "node", "instanceId": ".."}', 'payload_invalid', 'instanceId'],
    ['a reserved variable', '{"version": 1, "profile": "node", "env": {"WINDLASS_X": "1"}}', 'payload_invalid', 'env.WINDLASS_X'],
    [
      'a repository with a password',
      '{"version": 1, "profile": "node", "repository": {"url": "https://u:p@h/r"}}',
      'payload_invalid',
      'repository.url',
    ],
    ['a newer version', '{"version": 2, "profile": "node"}', 'schema_unsupported', 'version'],
    [
      'more than 64 KiB',
      JSON.stringify({ version: 1, profile: 'node', env: { A: 'x'.repeat(65_536) } }),
      'payload_too_large',
      undefined,
    ],
  ])('of %s ends with 2; nothing is enqueued or written', async (_name, request, code, path) => {
    const before = await dump(client);
    await writeFile(join(dir, 'request.json'), request);
    const refused = await run(['launch', '-f', join(dir, 'request.json')]);
    expect(refused.json().error).toMatchObject({
      code,
      issues: path === undefined ? [] : expect.arrayContaining([expect.objectContaining({ path })]),
    });
    expect(refused.exitCode).toBe(2);
    expect(await dump(client)).toBe(before);
  });

  it('--wait ends with 4 when the time is up, and the job goes on', async () => {
    const waited = await run(['launch', '--set', 'profile=node', '--set', 'instanceId=slow', '--wait', '--timeout', '1']);
    expect(waited.json().error).toMatchObject({ code: 'wait_timeout' });
    // Nobody works here: said once, and waited all the same.
    expect(waited.stderr.match(/No worker that takes launch jobs/g)).toHaveLength(1);
    expect(waited.exitCode).toBe(4);
    expect((await run(['get', 'slow'])).json()).toMatchObject({ state: 'requested' });
  });

  it('--wait lets go at Ctrl-C and says how to remove what it started', async () => {
    const child = start(['launch', '--set', 'profile=node', '--set', "instanceId=it's mine", '--wait', '--json'], { cwd: dir });
    let stderr = '';
    const accepted = new Promise<void>((resolve) =>
      child.stderr?.on('data', (chunk) => {
        stderr += chunk;
        if (stderr.includes('accepted')) resolve();
      }),
    );
    let stdout = '';
    child.stdout?.on('data', (chunk) => {
      stdout += chunk;
    });
    await accepted;
    child.kill('SIGINT');
    const [exitCode] = await once(child, 'close');
    expect(exitCode).toBe(130);
    expect(stderr).toContain(`windlass teardown -- 'it'\\''s mine'`);
    expect(JSON.parse(stdout)).toMatchObject({ instanceId: "it's mine", state: 'requested' });
  });
});

describe('ids with any characters', { timeout }, () => {
  const ids = ['a/b%2F', '{}:*', '-a', '\u{1f389}'.repeat(128)];

  it('round-trip through launch, list, get, events and teardown', async () => {
    for (const id of ids) {
      const launched = await run(['launch', '--set', 'profile=node', '--set', `instanceId=${JSON.stringify(id)}`]);
      expect(launched.json()).toMatchObject({ instanceId: id });
    }
    const names = (await run(['list', '-o', 'name', '--limit', '500'], {}, [])).stdout.trim().split('\n');
    expect(names).toEqual(expect.arrayContaining(ids));
    expect((await run(['get', '--', '-a'])).json()).toMatchObject({
      instanceId: '-a',
      owner: 'default',
    });
    const events = (await run(['events', '--', ids[3]!])).lines();
    expect(events).toMatchObject([{ schema: 'windlass/v1', instanceId: ids[3], seq: 1, type: 'requested' }]);
    expect((await run(['rm', ids[0]!])).json()).toMatchObject({ instanceId: ids[0], deduplicated: false });
  });
});

it('what is not there is named with the verb that shows what is', { timeout }, async () => {
  for (const [args, verb] of [
    [['sweeps', 'nobody'], 'windlass sweeps'],
    [['dead-letters', '--redrive', 'nobody'], 'windlass dead-letters'],
  ] as const) {
    const missing = await run([...args]);
    expect(missing.json().error).toMatchObject({ code: 'instance_not_found', hint: expect.stringContaining(verb) });
    expect(missing.exitCode).toBe(3);
  }
  expect((await run(['sweeps', '-o', 'wide'], {}, [])).stdout).toBe('No sweep reports.\n');
  expect((await run(['dead-letters', '-o', 'wide'], {}, [])).stdout).toBe('No dead letters.\n');
  expect((await run(['dead-letters', '--all', '-o', 'wide'], {}, [])).stdout).toBe('Nothing to send again.\n');
});

describe('records', { timeout }, () => {
  it('that are not there end with 3', async () => {
    for (const args of [
      ['get', 'nobody'],
      ['reconnect', 'nobody'],
      ['retry', 'nobody'],
      ['teardown', 'nobody'],
      ['events', 'nobody'],
      ['wait', 'nobody', '--for', 'gone'],
    ]) {
      const missing = await run(args);
      expect(missing.json().error?.code).toBe('instance_not_found');
      expect(missing.exitCode).toBe(3);
    }
  });

  it('come in pages that follow each other', async () => {
    const all = ((await run(['list', '--limit', '500'])).json().items as { instanceId: string }[]).map((item) => item.instanceId);
    const first = (await run(['list', '--limit', '2'])).json() as { items: { instanceId: string }[]; nextCursor: string };
    const second = (await run(['list', '--limit', '2', '--cursor', first.nextCursor])).json() as typeof first;
    expect([...first.items, ...second.items].map((item) => item.instanceId)).toEqual(all.slice(0, 4));
  });
});

describe('a worker does not start', { timeout }, () => {
  const settings = () => writeFile(join(dir, 'kubeconfig'), kubeconfig);

  it('C72: on a Redis that evicts, and says what to set', async () => {
    await settings();
    const evicting = await startRedis({ args: ['--maxmemory-policy', 'allkeys-lru'] });
    try {
      const env = { WINDLASS__REDIS__URL: evicting.url };
      const refused = await run(['worker'], env);
      expect(refused.json().error).toMatchObject({ code: 'redis_misconfigured', hint: expect.stringContaining('noeviction') });
      expect(refused.exitCode).toBe(5);
      // In a process of its own: BullMQ would print its own warning past everything else.
      const worker = await windlass(['worker'], { cwd: dir, env });
      expect(worker.exitCode).toBe(5);
      expect(worker.stderr).toContain('allkeys-lru');
      expect(worker.stderr + worker.stdout).not.toContain('IMPORTANT');
      const checks = (await run(['doctor'], env)).json().checks as { key: string; error: { code: string } | null }[];
      expect(checks.find((check) => check.key === 'redis')?.error?.code).toBe('redis_misconfigured');
    } finally {
      await evicting.stop();
    }
  });

  it('without a key, naming the variable; and keys status shows it', async () => {
    await settings();
    const env = { WINDLASS__SECRETS__ATREST: '[{"id": "k1", "keyEnv": "NOT_THERE"}]' };
    const refused = await run(['worker'], env);
    expect(refused.json().error).toMatchObject({ code: 'secret_key_missing', issues: [{ path: 'NOT_THERE' }] });
    expect(refused.exitCode).toBe(5);
    const status = await run(['keys', 'status'], env);
    expect(status.json().keys).toMatchObject([
      { kind: 'sealing', id: 's1', inUse: true, error: null },
      { kind: 'atRest', id: 'k1', error: { code: 'secret_key_missing' } },
    ]);
    expect(status.exitCode).toBe(5);
  });
});

/** Everything in Redis as text, in one order: equal before and after means that nothing was written. */
async function dump(from: Redis): Promise<string> {
  const parts: string[] = [];
  for (const key of (await from.keys('*')).sort()) {
    const type = await from.type(String(key));
    const value =
      type === 'hash'
        ? await from.hgetall(key)
        : type === 'zset'
          ? await from.zrange(key, '0', '-1')
          : type === 'list'
            ? await from.lrange(key, 0, -1)
            : type === 'set'
              ? (await from.smembers(key)).sort()
              : type === 'stream'
                ? await from.xrange(key, '-', '+')
                : await from.get(key);
    parts.push(`${key} ${JSON.stringify(value)}`);
  }
  return parts.join('\n');
}
