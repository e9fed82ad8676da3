import { existsSync, readFileSync, statSync } from 'node:fs';
import { join } from 'node:path';
import { afterEach, beforeEach, expect, it } from 'vitest';
import { rekeyCommand } from '../../../src/agent/boot.ts';
import { nonce, outcome, Pod, sink, until } from './harness.ts';

let pod: Pod;
beforeEach(async () => {
  pod = await Pod.create();
});
afterEach(() => pod.dispose());

const shake = (clientKey = 'key', value = nonce) => pod.client().handshake({ nonce: value, clientKey });
const get = (path: string, headers: Record<string, string> = {}) => fetch(`http://127.0.0.1:${pod.port}${path}`, { headers });

it('gives the same client the same token, another client none, and a wrong nonce none', async () => {
  await pod.serve();
  const token = await shake();
  expect(await shake()).toBe(token);
  await expect(shake('other')).rejects.toMatchObject({ code: 'handshake_failed', evidence: { status: 403 } });
  await expect(shake('key', 'wrong')).rejects.toMatchObject({ code: 'handshake_failed', evidence: { status: 403 } });
  expect(statSync(join(pod.run, 'token.json')).mode & 0o777).toBe(0o600);
});

it('slows down who guesses the nonce', async () => {
  await pod.serve();
  const statuses: number[] = [];
  for (let at = 0; at < 12; at++) {
    const error = await shake('key', `wrong ${at}`).then(
      () => undefined,
      (thrown) => thrown,
    );
    statuses.push(error.evidence.status);
  }
  expect(statuses.slice(0, 10)).toEqual(Array(10).fill(403));
  expect(statuses.at(-1)).toBe(429);
});

it('keeps token, client and instances over a restart, and does not run the command twice', async () => {
  const child = await pod.serve();
  const token = await shake();
  const request = { id: 'one', workspace_path: '/workspace', command: ['sh', '-c', 'echo ran >> ran; sleep 300'] };
  await pod.client(token).ensureInstance(request);
  await until(() => existsSync(join(pod.workspace, 'ran')), 'the command');
  const ended = outcome(child);
  child.kill('SIGKILL');
  await ended;
  const before = readFileSync(join(pod.run, 'instances.json'), 'utf8');
  const { pid } = JSON.parse(before)[0].command;
  process.kill(-pid, 'SIGKILL');
  await pod.serve();
  expect(await pod.client(token).instance()).toMatchObject({ command: { pid, exitCode: 137, signal: 'SIGKILL' } });
  expect(await shake()).toBe(token);
  await expect(shake('other')).rejects.toMatchObject({ evidence: { status: 403 } });
  await pod.client(token).ensureInstance(request);
  expect(readFileSync(join(pod.workspace, 'ran'), 'utf8')).toBe('ran\n');
});

it('rekeys over exec: the old token ends, the next client with the nonce has the new one', async () => {
  await pod.serve();
  const old = await shake();
  const { code, stdout } = await pod.exec(rekeyCommand());
  expect(code).toBe(0);
  const { token } = JSON.parse(stdout);
  expect(token).not.toBe(old);
  await expect(pod.client(old).instance()).rejects.toMatchObject({ evidence: { status: 401 } });
  expect(await pod.client(token).instance()).toBeUndefined();
  expect(await shake('a new client')).toBe(token);
  await expect(shake()).rejects.toMatchObject({ evidence: { status: 403 } });
});

it('says that it cannot rekey when no agent runs', async () => {
  expect(await pod.exec(rekeyCommand())).toMatchObject({
    code: 70,
    stdout: '',
    stderr: expect.stringContaining('does not answer'),
  });
});

it('asks everybody for the token, except for health and the handshake', async () => {
  await pod.serve();
  const token = await shake();
  expect((await get('/health')).status).toBe(200);
  for (const path of ['/api/v1/instances', '/api/v1/instances/one', '/api/v1/instances/one/prepare-log', '/nowhere']) {
    expect((await get(path)).status).toBe(401);
    expect((await get(path, { authorization: 'Bearer ' })).status).toBe(401);
    expect((await get(path, { authorization: `Basic ${token}` })).status).toBe(401);
    expect((await get(`${path}?token=${token}`)).status).toBe(401);
  }
  const exec = pod.client('x'.repeat(64)).exec({ command: ['true'], stdin: false }, { stdout: sink(), stderr: sink() });
  await expect(exec).rejects.toMatchObject({ code: 'handshake_failed', evidence: { status: 401 } });
});

it('creates an instance once, finds an equal one, refuses a different one by its fields, and removes it', async () => {
  const client = await pod.ready({});
  const again = await client.ensureInstance({ id: 'one', workspace_path: '/workspace' });
  expect(again).toMatchObject({ id: 'one', port: pod.port, status: 'ready', workspace_path: '/workspace' });
  const other = client.ensureInstance({ id: 'one', workspace_path: '/workspace', env: { A: 'hidden' } });
  await expect(other).rejects.toMatchObject({
    code: 'handshake_failed',
    message: expect.stringMatching(/"one" in \/workspace.*: env/),
  });
  await expect(other).rejects.not.toMatchObject({ message: expect.stringContaining('hidden') });
  const token = await shake();
  const authorization = `Bearer ${token}`;
  expect(await (await get('/api/v1/instances', { authorization })).json()).toEqual([again]);
  const removed = await fetch(`http://127.0.0.1:${pod.port}/api/v1/instances/one`, {
    method: 'DELETE',
    headers: { authorization },
  });
  expect(removed.status).toBe(200);
  expect(await client.instance()).toBeUndefined();
});

it('answers nobody who means another instance', async () => {
  await pod.ready({});
  const authorization = `Bearer ${await shake()}`;
  const headers = { authorization, 'x-instance-id': 'two' };
  expect((await get('/api/v1/instances/one', headers)).status).toBe(404);
  expect((await get('/api/v1/instances', headers)).status).toBe(404);
  expect((await get('/api/v1/instances/one', { authorization, 'x-instance-id': 'one' })).status).toBe(200);
});

it.each(['/ % {} : * -a', '🌍'.repeat(128), 'ünï/cödé?#'])('takes any id: %s', async (id) => {
  await pod.serve();
  const client = pod.client(await shake(), id);
  await client.ensureInstance({ id, workspace_path: '/workspace' });
  expect(await client.instance()).toMatchObject({ id });
  const stdout = sink();
  await client.exec({ command: ['echo', 'hi'], stdin: false }, { stdout, stderr: sink() });
  expect(stdout.text()).toBe('hi\n');
});

it.each([
  [{}, 400],
  [{ id: 'x', workspace_path: 'relative' }, 400],
  [{ id: 'x', workspace_path: '/workspace', command: [] }, 400],
  [{ id: 'x', workspace_path: '/workspace', env: { A: 1 } }, 400],
  [{ id: 'x', workspace_path: '/workspace', env: { A: 'x'.repeat(2 << 20) } }, 413],
])('refuses a request that it does not understand (%#)', async (body, status) => {
  await pod.serve();
  const headers = { authorization: `Bearer ${await shake()}` };
  const answer = await fetch(`http://127.0.0.1:${pod.port}/api/v1/instances`, {
    method: 'POST',
    headers,
    body: JSON.stringify(body),
  });
  expect(answer.status).toBe(status);
  expect(await answer.json()).toEqual({ error: expect.any(String) });
  expect((await get('/health')).status).toBe(200);
});

it('runs the command of an instance, reports its end, and hides secrets in its output', async () => {
  const child = await pod.serve({ authEnv: { TOKEN: 'very-secret' }, secretNames: ['TOKEN'] });
  const ended = outcome(child);
  const client = pod.client(await shake());
  const command = ['sh', '-c', 'echo "t=$TOKEN $OWN"; pwd; exit 6'];
  await client.ensureInstance({ id: 'one', workspace_path: '/workspace', env: { OWN: 'mine' }, command });
  await until(async () => (await client.instance())?.command?.exitCode === 6, 'the command to end');
  child.kill('SIGTERM');
  expect((await ended).stdout).toBe(`t=*** mine\n${pod.workspace}\n`);
});

it('reports a command that cannot be started as 127', async () => {
  await pod.serve();
  const info = await pod
    .client(await shake())
    .ensureInstance({ id: 'one', workspace_path: '/workspace', command: ['no-such-program'] });
  expect(info.command).toEqual({ pid: 0, exitCode: 127, signal: null });
});

it('serves the prepare log, and an empty one when nothing was prepared', async () => {
  const client = await pod.ready({ prepare: 'echo prepared well' });
  expect(await client.instance()).toBeDefined();
  const log = await get('/api/v1/instances/one/prepare-log', { authorization: `Bearer ${await shake()}` });
  expect(await log.text()).toBe('prepared well\n');
});

it('moves the time of the last activity with an exec, not with being asked', async () => {
  const client = await pod.ready({});
  const first = (await client.instance())?.last_activity_at;
  expect((await client.instance())?.last_activity_at).toBe(first);
  await client.exec({ command: ['true'], stdin: false }, { stdout: sink(), stderr: sink() });
  expect(Date.parse((await client.instance())?.last_activity_at ?? '')).toBeGreaterThan(Date.parse(first ?? ''));
});
