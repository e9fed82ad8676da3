import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { afterEach, describe, expect, it, vi } from 'vitest';
import { loadConfig, loadTokens } from '../../../src/config/load.ts';
import type { Issue, WindlassError } from '../../../src/errors.ts';
import { configFolder, validConfig } from './folder.ts';

afterEach(() => vi.unstubAllEnvs());

async function issuesOf(config: unknown, files: Record<string, string> = {}): Promise<Record<string, string>> {
  const dir = await configFolder(config, files);
  const error = await loadConfig({ cwd: dir }).then(
    () => undefined,
    (thrown: WindlassError) => thrown,
  );
  expect(error?.code).toBe('config_invalid');
  return Object.fromEntries((error?.issues ?? []).map(({ path, message }: Issue) => [path, message]));
}

describe('reading the file', () => {
  it('fills in every default and keeps the raw template text', async () => {
    const dir = await configFolder(
      { ...validConfig(), profiles: { node: { podTemplateFile: 'node.yaml', workspace: { mode: 'empty_dir' } } } },
      { 'node.yaml': 'kind: PodTemplate\n' },
    );
    const loaded = await loadConfig({ cwd: dir });
    expect(loaded.config).toMatchObject({
      installation: 'local',
      redis: { url: 'redis://127.0.0.1:6379', prefix: 'windlass' },
      worker: { concurrency: 50, drainSeconds: 25 },
      http: { host: '127.0.0.1', port: 8080 },
      profiles: { node: { egress: 'internet', budgets: { total: 1800 } } },
    });
    expect(loaded.templates).toEqual({ node: 'kind: PodTemplate\n' });
    expect(loaded).toMatchObject({ file: join(dir, 'windlass.yaml'), dir });
  });

  it('takes --config before $WINDLASS_CONFIG before ./windlass.yaml', async () => {
    const [one, two] = [
      await configFolder({ ...validConfig(), installation: 'one' }),
      await configFolder({ ...validConfig(), installation: 'two' }),
    ];
    vi.stubEnv('WINDLASS_CONFIG', join(two, 'windlass.yaml'));
    expect((await loadConfig({ cwd: one })).config.installation).toBe('two');
    expect((await loadConfig({ cwd: one, file: 'windlass.yaml' })).config.installation).toBe('one');
  });

  it('says that the file is missing, and what writes one', async () => {
    await expect(loadConfig({ file: '/nonexistent/windlass.yaml' })).rejects.toMatchObject({
      code: 'config_invalid',
      hint: expect.stringContaining('windlass init'),
    });
  });

  it.each([
    ['a duplicate key', 'installation: a\ninstallation: b\n', /unique/],
    ['a second document', 'installation: a\n---\ninstallation: b\n', /2 YAML documents/],
    ['an unknown tag', 'installation: !foo a\n', /tag/i],
    ['broken indentation', 'clusters:\n  a: [\n', /not valid YAML/],
    ['nothing', '', /empty/],
    ['a NUL character', 'installation: "a\0b"\n', /NUL/],
    [
      'an alias bomb',
      `a: &a [x,x,x,x,x,x,x,x,x,x]\n${'bcdef'
        .split('')
        .map((key, i) => `${key}: &${key} [${`*${'abcde'[i]},`.repeat(10)}]`)
        .join('\n')}\n`,
      /alias/i,
    ],
  ])('refuses %s', async (_name, text, message) => {
    expect(Object.values(await issuesOf(text))[0]).toMatch(message);
  });
});

describe('every problem at once', () => {
  it('names each with its path and what would be right', async () => {
    const issues = await issuesOf({
      ...validConfig(),
      installation: 'Not_Valid',
      redis: { uri: 'x', waitReplicas: 'many' },
      clusters: { default: { authMode: 'kubeconfig', namespace: 'Bad_NS', kubeconfgPath: 'x' }, other: { authMode: 'magic' } },
      http: { port: 70000, tokens: [{ name: 'a', sha256: 'zz', role: 'operator', owners: ['me'] }] },
    });
    expect(issues).toMatchObject({
      'redis.uri': 'is not a known key; did you mean "url"?',
      'redis.waitReplicas': 'must be a number, not a text',
      'clusters.default.kubeconfigPath': 'is missing: must be a text',
      'clusters.default.kubeconfgPath': 'is not a known key; did you mean "kubeconfigPath"?',
      'clusters.default.namespace': expect.stringContaining('1 to 63 lower-case letters'),
      'clusters.other.authMode': 'must be one of kubeconfig, in_cluster',
      installation: expect.stringContaining('1 to 63'),
      'http.port': 'must be at most 65535',
      'http.tokens.0.sha256': expect.stringContaining('64 lower-case hex digits'),
      'http.tokens.0.owners': expect.stringContaining('["*"]'),
    });
  });

  it('finds what fields say about each other even where another field is misspelt', async () => {
    const issues = await issuesOf({
      ...validConfig(),
      limits: { claimSize: '5Gi', maxLifetimeSeconds: 100 },
      profiles: {
        both: {
          podTemplate: 'x',
          podTemplateFile: 'missing.yaml',
          workspce: {},
          workspace: { mode: 'managed_pvc', size: '6Gi' },
          lifetime: { maxSeconds: 90 },
        },
        none: {
          workspace: { mode: 'empty_dir', size: '1Gi' },
          lifetime: { maxSeconds: 101, idleSeconds: 5, onExpire: 'suspend' },
        },
        agent: {
          podTemplate: 'x',
          workspace: { mode: 'empty_dir' },
          lifetime: { maxSeconds: 1 },
          agent: { delivery: 'upload', path: '/agent', protocol: 'agentctl' },
        },
      },
    });
    expect(issues).toMatchObject({
      'profiles.both.workspce': 'is not a known key; did you mean "workspace"?',
      'profiles.both.podTemplate': expect.stringContaining('not both'),
      'profiles.both.podTemplateFile': expect.stringContaining('cannot be read (ENOENT)'),
      'profiles.both.workspace.size': 'must be at most 5Gi (limits.claimSize)',
      'profiles.none.podTemplateFile': expect.stringContaining('is missing'),
      'profiles.none.workspace.size': 'belongs to mode managed_pvc, not empty_dir',
      'profiles.none.lifetime.maxSeconds': 'must be at most 100 (limits.maxLifetimeSeconds)',
      'profiles.none.lifetime.onIdle': expect.stringContaining('has none'),
      'profiles.none.lifetime.onExpire': expect.stringContaining('has none'),
      'profiles.agent.agent.binaries': 'is missing: delivery upload needs it',
      'profiles.agent.agent.path': 'belongs to delivery image, not upload',
    });
  });

  it.each<[string, object, Record<string, unknown>]>([
    ['no access mode', { mode: 'managed_pvc', size: '1Gi', accessModes: [] }, { accessModes: expect.any(String) }],
    [
      'an access mode that nobody knows',
      { mode: 'managed_pvc', size: '1Gi', accessModes: ['RWO'] },
      { 'accessModes.0': expect.stringContaining('ReadWriteOnce') },
    ],
    [
      'access modes as text',
      { mode: 'managed_pvc', size: '1Gi', accessModes: 'ReadWriteOnce' },
      { accessModes: expect.stringContaining('list') },
    ],
    ['no size', { mode: 'managed_pvc' }, { size: expect.any(String) }],
    ['a size of nothing', { mode: 'managed_pvc', size: '0' }, { size: expect.any(String) }],
    ['an existing claim without a name', { mode: 'existing_claim' }, { claimName: expect.any(String) }],
    [
      'a class for an existing claim',
      { mode: 'existing_claim', claimName: 'c', storageClass: 's' },
      { storageClass: expect.stringContaining('managed_pvc') },
    ],
    [
      'a claim name for an empty directory',
      { mode: 'empty_dir', claimName: 'c' },
      { claimName: expect.stringContaining('existing_claim') },
    ],
    [
      'access modes for an empty directory',
      { mode: 'empty_dir', accessModes: ['ReadWriteOnce'] },
      { accessModes: expect.stringContaining('managed_pvc') },
    ],
    [
      'a limit for a claim',
      { mode: 'managed_pvc', size: '1Gi', sizeLimit: '1Gi' },
      { sizeLimit: expect.stringContaining('empty_dir') },
    ],
    ['a mode that nobody knows', { mode: 'nfs' }, { mode: expect.stringContaining('managed_pvc') }],
  ])('refuses a workspace with %s', async (_what, workspace, wanted) => {
    const issues = await issuesOf({ ...validConfig(), profiles: { node: { podTemplate: 'x', workspace } } });
    const at = (path: string) => `profiles.node.workspace.${path}`;
    expect(issues).toEqual(Object.fromEntries(Object.entries(wanted).map(([path, message]) => [at(path), message])));
  });

  it.each([
    { mode: 'managed_pvc', size: '1Gi', storageClass: 'fast', accessModes: ['ReadWriteMany', 'ReadWriteOncePod'] },
    { mode: 'existing_claim', claimName: 'data' },
    { mode: 'empty_dir', sizeLimit: '1Gi' },
  ])('takes the workspace %j', async (workspace) => {
    const dir = await configFolder({ ...validConfig(), profiles: { node: { podTemplate: 'x', workspace } } });
    expect((await loadConfig({ cwd: dir })).config.profiles.node?.workspace).toMatchObject(workspace);
  });

  it('takes a connection by kubeconfig or in the cluster, each with its own fields only', async () => {
    const inside = { authMode: 'in_cluster', namespace: 'sandboxes', requestTimeoutSeconds: 300 };
    const file = { authMode: 'kubeconfig', kubeconfigPath: '/k', context: 'c', namespace: 'a', requestTimeoutSeconds: 1 };
    const dir = await configFolder({ ...validConfig(), clusters: { inside, file } });
    expect((await loadConfig({ cwd: dir })).config.clusters).toMatchObject({ inside, file });
    const issues = await issuesOf({
      ...validConfig(),
      clusters: {
        one: { ...inside, kubeconfigPath: '/k', context: 'c' },
        two: { ...file, namespace: undefined, requestTimeoutSeconds: 0 },
        three: { ...file, kubeconfigPath: '', requestTimeoutSeconds: 301 },
      },
    });
    expect(Object.keys(issues).sort()).toEqual([
      'clusters.one.context',
      'clusters.one.kubeconfigPath',
      'clusters.three.kubeconfigPath',
      'clusters.three.requestTimeoutSeconds',
      'clusters.two.namespace',
      'clusters.two.requestTimeoutSeconds',
    ]);
  });

  it('needs at least one cluster, one key of each kind and one profile or app', async () => {
    const issues = await issuesOf({ clusters: {}, secrets: { sealing: [], atRest: [] } });
    expect(Object.keys(issues).sort()).toEqual(['clusters', 'profiles', 'secrets.atRest', 'secrets.sealing']);
  });

  it.each([
    ['http://h', /redis:\/\//],
    ['redis://h:99999', /port/],
    ['redis+sentinel://h1,h2', /master/],
  ])('refuses the Redis address %s', async (url, message) => {
    expect((await issuesOf({ ...validConfig(), redis: { url } }))['redis.url']).toMatch(message);
  });

  it.each(['redis://h', 'rediss://u:p@h:6380/2', 'redis+sentinel://h1:26379,h2/main', 'redis+cluster://h1:7000,h2:7001'])(
    'takes the Redis address %s',
    async (url) => {
      const dir = await configFolder({ ...validConfig(), redis: { url } });
      expect((await loadConfig({ cwd: dir })).config.redis.url).toBe(url);
    },
  );

  it('refuses a template over 256 KiB', async () => {
    const config = {
      ...validConfig(),
      profiles: { node: { podTemplate: 'x'.repeat(256 * 1024 + 1), workspace: { mode: 'empty_dir' } } },
    };
    expect(await issuesOf(config)).toEqual({ 'profiles.node.podTemplate': 'must be at most 256 KiB' });
  });
});

describe('overrides', () => {
  it('lay WINDLASS__ variables over the file, matching keys without regard to case', async () => {
    vi.stubEnv('WINDLASS__REDIS__URL', 'redis://127.0.0.1:7000');
    vi.stubEnv('WINDLASS__CLUSTERS__DEFAULT__KUBECONFIGPATH', '/other');
    vi.stubEnv('WINDLASS__HTTP__ALLOWEDHOSTS', '["a.example","b.example"]');
    vi.stubEnv('WINDLASS__WORKER__CONCURRENCY', '7');
    vi.stubEnv('WINDLASS__BACKPRESSURE__ENABLED', 'false');
    vi.stubEnv('WINDLASS__SWEEPS__CONFIG_MAPS__EVERY', '9');
    const { config } = await loadConfig({ cwd: await configFolder(validConfig()) });
    expect(config).toMatchObject({
      redis: { url: 'redis://127.0.0.1:7000' },
      clusters: { default: { kubeconfigPath: '/other' } },
      http: { allowedHosts: ['a.example', 'b.example'] },
      worker: { concurrency: 7 },
      backpressure: { enabled: false },
      sweeps: { 'config-maps': { every: 9 } },
    });
  });

  it('names a misspelt or malformed variable instead of ignoring it', async () => {
    vi.stubEnv('WINDLASS__REDSI__URL', 'x');
    vi.stubEnv('WINDLASS__HTTP__ALLOWEDHOSTS', 'a.example');
    vi.stubEnv('WINDLASS__WORKER__CONCURRENCY', 'many');
    expect(await issuesOf(validConfig())).toMatchObject({
      WINDLASS__REDSI__URL: 'is no setting; did you mean WINDLASS__REDIS?',
      WINDLASS__HTTP__ALLOWEDHOSTS: expect.stringContaining('must be JSON'),
      'worker.concurrency': 'must be a number, not a text',
    });
  });

  it('ignores every other WINDLASS_ variable, such as those that Kubernetes injects for a Service', async () => {
    vi.stubEnv('WINDLASS_PORT', 'tcp://10.0.0.1:8080');
    vi.stubEnv('WINDLASS_REDIS_URL', 'redis://elsewhere');
    const { config } = await loadConfig({ cwd: await configFolder(validConfig()) });
    expect(config.http.port).toBe(8080);
    expect(config.redis.url).toBe('redis://127.0.0.1:6379');
  });
});

describe('named variables', () => {
  it('come from the shell, else from windlass.env beside the file', async () => {
    const dir = await configFolder(validConfig(), {
      'windlass.env': '# keys\nWINDLASS_SEALING_KEY={"kty":"EC","d":"a=b"}\nexport OTHER=\'it is\'\nSHELL_WINS=no\n',
    });
    vi.stubEnv('SHELL_WINS', 'yes');
    const { env } = await loadConfig({ cwd: dir });
    expect(env('WINDLASS_SEALING_KEY')).toBe('{"kty":"EC","d":"a=b"}');
    expect(env('OTHER')).toBe('it is');
    expect(env('SHELL_WINS')).toBe('yes');
    expect(env('NOWHERE')).toBeUndefined();
  });
});

describe('tokens', () => {
  const token = { name: 'ci', sha256: 'a'.repeat(64), role: 'operator' };

  it('of the configuration and of http.tokensFile count together', async () => {
    const dir = await configFolder(
      { ...validConfig(), http: { tokens: [token], tokensFile: 'tokens.yaml' } },
      { 'tokens.yaml': `- name: file\n  sha256: ${'b'.repeat(64)}\n  role: viewer\n` },
    );
    const names = (await loadTokens(await loadConfig({ cwd: dir }))).map(({ name, role, owners }) => ({ name, role, owners }));
    expect(names).toEqual([
      { name: 'ci', role: 'operator', owners: ['*'] },
      { name: 'file', role: 'viewer', owners: ['*'] },
    ]);
  });

  it('file is read by who serves only: a caller need not be able to read it', async () => {
    const dir = await configFolder({ ...validConfig(), http: { tokensFile: 'missing.yaml' } });
    const loaded = await loadConfig({ cwd: dir });
    await expect(loadTokens(loaded)).rejects.toMatchObject({ code: 'config_invalid', issues: [{ path: 'http.tokensFile' }] });
  });

  it('of one name twice are refused, wherever they stand', async () => {
    const dir = await configFolder(
      { ...validConfig(), http: { tokens: [token], tokensFile: 'tokens.yaml' } },
      { 'tokens.yaml': JSON.stringify([token]) },
    );
    await expect(loadTokens(await loadConfig({ cwd: dir }))).rejects.toMatchObject({
      issues: [{ message: expect.stringContaining('used twice') }],
    });
  });
});

it('an unreadable windlass.env is an error, not an empty one', async () => {
  const dir = await configFolder(validConfig());
  await mkdir(join(dir, 'windlass.env'));
  await expect(loadConfig({ cwd: dir })).rejects.toMatchObject({ code: 'config_invalid', issues: [{ path: 'windlass.env' }] });
});
