import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { get } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it, vi } from 'vitest';
import { stringify } from 'yaml';
import { loadConfig } from '../../src/config/load.ts';
import { startServer } from '../../src/dashboard/serve.ts';
import { type Caller, openCaller } from '../../src/main.ts';
import { sha256 } from '../../src/names.ts';
import { startRedis, type TestRedis } from '../support/redis.ts';
import { validConfig } from '../unit/config/folder.ts';

const tokens = {
  viewer: 'viewer-token',
  alice: 'alice-token',
  operator: 'operator-token',
  expired: 'expired-token',
};
const entries = [
  { name: 'viewer', sha256: sha256(tokens.viewer), role: 'viewer' },
  { name: 'alice', sha256: sha256(tokens.alice), role: 'caller', owners: ['alice'] },
  { name: 'operator', sha256: sha256(tokens.operator), role: 'operator' },
  { name: 'expired', sha256: sha256(tokens.expired), role: 'operator', expiresAt: '2020-01-01T00:00:00Z' },
];
const ids = ['a/b', '%zz', '..a', '{}:*', '-a', '<script>alert(1)</script>', 'it\'s "quoted" & more', '\u{1f389}'.repeat(128)];

let redis: TestRedis;
let dir: string;
const closing: (() => Promise<void>)[] = [];

async function openWith(http: object): Promise<Caller> {
  const file = join(dir, `${closing.length}.yaml`);
  await writeFile(file, stringify({ ...validConfig(), redis: { url: redis.url }, http: { port: 0, ...http } }));
  const caller = await openCaller(await loadConfig({ file }));
  closing.push(() => caller.close());
  return caller;
}

async function serve(http: object = {}, token?: string): Promise<{ url: string; caller: Caller }> {
  const caller = await openWith(http);
  const server = await startServer({ caller, ...(token === undefined ? {} : { token }) });
  closing.push(() => server.close());
  return { url: server.url.replace(/\/$/, ''), caller };
}

beforeAll(async () => {
  redis = await startRedis();
  dir = await mkdtemp(join(tmpdir(), 'windlass-dashboard-'));
  const caller = await openWith({});
  for (const instanceId of ids)
    await caller.producer.launch({ version: 1, profile: 'node', instanceId, env: { PLAIN: 'env-value-77' } });
  await caller.producer.launch({ version: 1, profile: 'node', instanceId: 'of-alice', owner: 'alice' });
  // As a service in another language would: a raw job that carries everything itself.
  await (await caller.producer.queues()).launch.add('launch', {
    version: 1,
    profile: 'node',
    instanceId: 'raw',
    env: { A: 'env-value-77' },
    prepare: 'script-77',
    secretEnv: { B: 'secret-77' },
  });
});
// The audit log goes to stdout, where it would stand between the test results.
beforeEach(() => void vi.spyOn(process.stdout, 'write').mockReturnValue(true));
afterEach(() => vi.restoreAllMocks());
afterAll(async () => {
  for (const close of closing.reverse()) await close();
  await redis.stop();
  await rm(dir, { recursive: true, force: true });
});

const bearer = (token: string) => ({ authorization: `Bearer ${token}` });
const browser = { accept: 'text/html' };

describe('on loopback without tokens', () => {
  it('everybody on this machine may read, also ids with any characters, and nothing in them becomes markup', async () => {
    const { url } = await serve();
    const list = await (await fetch(`${url}/`, { headers: browser })).text();
    for (const id of ids) {
      expect(list).toContain(`href="/instances/${encodeURIComponent(id).replaceAll("'", '&#39;')}"`);
      const page = await fetch(`${url}/instances/${encodeURIComponent(id)}`, { headers: browser });
      expect(page.status, id).toBe(200);
      const text = await page.text();
      expect(text).toContain('No worker has begun yet');
      expect(text).not.toContain('<script>alert');
    }
    expect(list).not.toContain('<script>alert');
  });

  it('nobody may write, and Bull Board is shown without buttons', async () => {
    const { url } = await serve();
    const pause = await fetch(`${url}/queues/api/queues/launch/pause`, { method: 'PUT', headers: { origin: url } });
    expect(pause.status).toBe(403);
    const board = (await (await fetch(`${url}/queues/api/queues`)).json()) as {
      queues: { name: string; readOnlyMode: boolean; allowRetries: boolean; isPaused: boolean }[];
    };
    expect(
      board.queues.map(({ name, readOnlyMode, allowRetries, isPaused }) => ({ name, readOnlyMode, allowRetries, isPaused })),
    ).toEqual(
      ['launch', 'teardown', 'sweep'].map((name) => ({ name, readOnlyMode: true, allowRetries: false, isPaused: false })),
    );
  });

  it('a page of another site is refused by its Host, health is not', async () => {
    const { url } = await serve();
    expect(await statusFor(url, '/', 'evil.example')).toBe(403);
    expect(await statusFor(url, '/queues', '127.0.0.1.evil.example')).toBe(403);
    expect(await statusFor(url, '/', 'localhost:9')).toBe(200);
    expect(await statusFor(url, '/healthz', '10.1.2.3:8080')).toBe(200);
  });

  it('every answer forbids foreign code and frames', async () => {
    const { url } = await serve();
    for (const path of ['/', '/queues', '/healthz', '/nowhere', '/assets/style.css']) {
      const { headers } = await fetch(url + path);
      expect(headers.get('content-security-policy'), path).toMatch(
        /default-src 'none'; script-src 'self';.*frame-ancestors 'none'/,
      );
      expect(headers.get('x-frame-options'), path).toBe('DENY');
    }
    expect(await (await fetch(`${url}/queues`)).text()).not.toContain('googleapis');
  });

  it('a torn down, unknown or malformed address says what it is', async () => {
    const { url } = await serve();
    expect(await problem(`${url}/instances/nobody`)).toMatchObject({ status: 404, code: 'instance_not_found' });
    expect(await problem(`${url}/instances/%zz`)).toMatchObject({ status: 400, code: 'payload_invalid' });
    expect(await (await fetch(`${url}/instances/nobody`, { headers: browser })).text()).toContain('There is no instance');
    const nowhere = await problem(`${url}/nowhere`);
    expect(nowhere).toMatchObject({ status: 404, detail: 'There is no such page.' });
    expect(nowhere.hint).not.toContain('schema');
  });
});

describe('C82: with tokens', () => {
  it('nothing but health and the sign-in is open; a wrong or expired token is 401', async () => {
    const { url } = await serve({ tokens: entries });
    for (const path of ['/', '/instances/a%2Fb', '/queues', '/queues/api/queues']) {
      expect((await fetch(url + path)).status, path).toBe(401);
      expect((await fetch(url + path, { headers: bearer('wrong') })).status, path).toBe(401);
      expect((await fetch(url + path, { headers: bearer(tokens.expired) })).status, path).toBe(401);
      expect((await fetch(url + path, { headers: bearer(tokens.viewer) })).status, path).toBe(200);
    }
    expect((await fetch(`${url}/healthz`)).status).toBe(200);
    expect(await (await fetch(`${url}/`, { headers: browser })).text()).toContain('<h1>Sign in</h1>');
  });

  it('an owner sees its own instances; another one’s is not there, and the queues are closed', async () => {
    const { url } = await serve({ tokens: entries });
    const alice = { headers: bearer(tokens.alice) };
    const list = await (await fetch(`${url}/?owner=default`, alice)).text();
    expect(list).toContain('of-alice');
    expect(list).not.toContain('a%2Fb');
    expect((await fetch(`${url}/instances/of-alice`, alice)).status).toBe(200);
    expect(await problem(`${url}/instances/a%2Fb`, alice)).toMatchObject({ status: 404, code: 'instance_not_found' });
    expect(await problem(`${url}/queues/api/queues`, alice)).toMatchObject({ status: 403, code: 'forbidden' });
  });

  it('a browser trades its token for a cookie that dies with it, and may sign out', async () => {
    const { url } = await serve({ tokens: entries });
    const signIn = (token: string) =>
      fetch(`${url}/login`, {
        method: 'POST',
        redirect: 'manual',
        headers: { origin: url },
        body: new URLSearchParams({ token }),
      });
    expect((await signIn('wrong')).status).toBe(401);
    const entered = await signIn(tokens.viewer);
    expect(entered.status).toBe(303);
    const cookie = entered.headers.get('set-cookie') ?? '';
    expect(cookie).toMatch(/HttpOnly; SameSite=Lax/);
    expect(cookie).not.toContain(tokens.viewer);
    expect(cookie).not.toContain(sha256(tokens.viewer));
    const session = { headers: { cookie: cookie.split(';')[0]! } };
    expect(await (await fetch(`${url}/`, session)).text()).toContain('viewer (viewer)');
    const forged = { headers: { cookie: cookie.split(';')[0]!.replace(/.$/, (last) => (last === 'A' ? 'B' : 'A')) } };
    expect((await fetch(`${url}/`, forged)).status).toBe(401);
    const out = await fetch(`${url}/logout`, {
      method: 'POST',
      redirect: 'manual',
      headers: { origin: url, ...session.headers },
    });
    expect(out.headers.get('set-cookie')).toContain('Max-Age=0');
  });

  it('a token of this run only may come in the address, and leaves it at once', async () => {
    const { url } = await serve({}, 'one-run');
    expect((await fetch(`${url}/`)).status).toBe(401);
    expect((await fetch(`${url}/?token=wrong`)).status).toBe(401);
    const entered = await fetch(`${url}/?token=one-run`, { redirect: 'manual' });
    expect([entered.status, entered.headers.get('location')]).toEqual([303, '/']);
    const cookie = (entered.headers.get('set-cookie') ?? '').split(';')[0]!;
    expect((await fetch(`${url}/`, { headers: { cookie } })).status).toBe(200);
  });

  it('a configured token never comes in the address', async () => {
    const { url } = await serve({ tokens: entries });
    expect((await fetch(`${url}/?token=${tokens.operator}`)).status).toBe(401);
  });
});

describe('C83: writes', () => {
  it('need an operator and an origin of ours, and each is in the audit log', async () => {
    const { url, caller } = await serve({ tokens: entries });
    const audit: Record<string, unknown>[] = [];
    vi.spyOn(process.stdout, 'write').mockImplementation((chunk) => {
      audit.push(JSON.parse(String(chunk)));
      return true;
    });
    const pause = (headers: Record<string, string>) => fetch(`${url}/queues/api/queues/sweep/pause`, { method: 'PUT', headers });
    const operator = bearer(tokens.operator);
    expect((await pause(operator)).status).toBe(403);
    expect((await pause({ ...operator, origin: 'https://evil.example' })).status).toBe(403);
    expect((await pause({ ...operator, 'sec-fetch-site': 'cross-site' })).status).toBe(403);
    expect((await pause({ ...bearer(tokens.viewer), origin: url })).status).toBe(403);
    expect(await (await caller.producer.queues()).sweep.isPaused()).toBe(false);
    expect((await pause({ ...operator, origin: url })).status).toBe(200);
    expect(await (await caller.producer.queues()).sweep.isPaused()).toBe(true);
    expect(audit.map(({ actor, result, code }) => [actor, result, code])).toEqual([
      ['', 'refused', 'forbidden'],
      ['', 'refused', 'forbidden'],
      ['', 'refused', 'forbidden'],
      ['viewer', 'refused', 'forbidden'],
      ['operator', 'done', ''],
    ]);
    expect(JSON.stringify(audit)).not.toContain('-token');
  });

  it('that would pass no validation or lose intents are refused even to an operator', async () => {
    const { url, caller } = await serve({ tokens: entries });
    const before = await (await caller.producer.queues()).launch.getJobCounts();
    const headers = { ...bearer(tokens.operator), origin: url, 'content-type': 'application/json' };
    const tries = [
      ['POST', 'launch/add', '{"name":"launch","data":{}}'],
      ['PUT', 'launch/obliterate', '{"force":true}'],
      ['PUT', 'launch/empty', '{}'],
      ['PATCH', 'launch/1/update-data', '{"jobData":{}}'],
      ['PUT', 'sweep/job-schedulers/sweep-orphans/remove', '{}'],
    ] as const;
    for (const [method, path, body] of tries) {
      expect((await fetch(`${url}/queues/api/queues/${path}`, { method, headers, body })).status, path).toBe(403);
    }
    expect(await (await caller.producer.queues()).launch.getJobCounts()).toEqual(before);
  });
});

describe('C80: Bull Board', () => {
  it('shows what a job is about, but neither env, scripts nor secrets, to nobody', async () => {
    const { url } = await serve({ tokens: entries });
    const query = 'activeQueue=launch&status=latest&page=1&jobsPerPage=50';
    const text = await (await fetch(`${url}/queues/api/queues?${query}`, { headers: bearer(tokens.operator) })).text();
    expect(text).toContain('"instanceId":"raw"');
    expect(text).not.toMatch(/env-value-77|script-77|secret-77/);
  });

  it('cuts what is large before it is sent', async () => {
    const { url, caller } = await serve();
    const job = await (await caller.producer.queues()).teardown.add('teardown', { version: 1, instanceId: 'x'.repeat(100_000) });
    const text = await (await fetch(`${url}/queues/api/queues/teardown/${job.id}`)).text();
    expect(text.length).toBeLessThan(10_000);
    expect(text).toContain('"truncated":true');
  });
});

it('lives below a base path, as behind a proxy', async () => {
  const { url } = await serve({ basePath: '/windlass/' });
  expect(url).toMatch(/\/windlass$/);
  expect(await (await fetch(`${url}/`)).text()).toContain('href="/windlass/instances/');
  expect((await fetch(`${url}/queues/api/queues`)).status).toBe(200);
  expect((await fetch(url.replace('/windlass', '/instances/a%2Fb'))).status).toBe(404);
});

it('a port that is taken is config_invalid, naming the port', async () => {
  const { url } = await serve();
  const port = Number(new URL(url).port);
  await expect(startServer({ caller: await openWith({}), port })).rejects.toMatchObject({
    code: 'config_invalid',
    issues: [{ path: 'http.port', message: expect.stringContaining(String(port)) }],
  });
});

async function problem(url: string, init: RequestInit = {}): Promise<{ status: number; code?: string; hint?: string }> {
  const answer = await fetch(url, init);
  expect(answer.headers.get('content-type')).toContain('application/problem+json');
  return (await answer.json()) as { status: number; code?: string; hint?: string };
}

/** fetch does not let a test choose the Host. */
function statusFor(url: string, path: string, host: string): Promise<number | undefined> {
  return new Promise((resolve, reject) => {
    get(url + path, { headers: { host } }, (answer) => {
      answer.resume();
      resolve(answer.statusCode);
    }).on('error', reject);
  });
}
