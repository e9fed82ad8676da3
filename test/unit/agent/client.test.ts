import { once } from 'node:events';
import { createServer, type Server, type Socket } from 'node:net';
import { afterEach, expect, it } from 'vitest';
import { createAgentClient } from '../../../src/agent/client.ts';
import { encodeFrame } from '../../../src/agent/frames.ts';
import { effectNames } from './effects.ts';
import { freePort, sink } from './harness.ts';

/** Hostile agents, at the level of bytes: each connection is answered by `respond` once a request head has arrived. */
const servers: Server[] = [];
const sockets = new Set<Socket>();
afterEach(async () => {
  for (const socket of sockets) socket.destroy();
  await Promise.all(servers.splice(0).map((server) => new Promise((resolve) => server.close(resolve))));
});

async function hostile(respond: (socket: Socket, head: string) => void) {
  const server = createServer((socket) => {
    sockets.add(socket.on('error', () => socket.destroy()));
    let head = '';
    const onData = (chunk: Buffer) => {
      head += chunk.toString('latin1');
      if (!head.includes('\r\n\r\n')) return;
      respond(socket, head);
      head = '';
    };
    socket.on('data', onData);
  });
  servers.push(server);
  server.listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as { port: number };
  return createAgentClient({ host: '127.0.0.1', port, instanceId: 'one', token: 't'.repeat(64) });
}

const json = (status: number, body: unknown) => {
  const text = typeof body === 'string' ? body : JSON.stringify(body);
  return `HTTP/1.1 ${status} X\r\nContent-Length: ${Buffer.byteLength(text)}\r\n\r\n${text}`;
};
const answers = (status: number, body: unknown) => hostile((socket) => socket.write(json(status, body)));
const info = { id: 'one', port: 8765, status: 'ready', workspace_path: '/workspace', created_at: '2026-01-01T00:00:00Z' };

it.each([
  ['another status', { status: 'fine', timestamp: 'x', protocol: 1 }],
  ['no object', []],
  ['no JSON', 'hello'],
  ['a protocol from the future', { status: 'ok', timestamp: 'x', protocol: 3 }],
])('does not take %s for health', async (_what, body) => {
  await expect((await answers(200, body)).health()).rejects.toMatchObject({ code: 'handshake_failed' });
});

it.each(['short', 'x'.repeat(600), 'has spaces and more text', `line\r\nInjected: ${'x'.repeat(20)}`, 5, null])(
  'refuses the token %j',
  async (token) => {
    const client = await answers(200, { token });
    await expect(client.handshake({ nonce: 'n', clientKey: 'k' })).rejects.toMatchObject({ code: 'handshake_failed' });
  },
);

it('repeats the words of an agent without control characters and not all of them', async () => {
  const client = await answers(403, { error: `\u001b[31mred\u202e\n${'x'.repeat(5000)}` });
  const error = await client.handshake({ nonce: 'n', clientKey: 'k' }).catch((thrown) => thrown);
  expect(error).toMatchObject({ code: 'handshake_failed', evidence: { status: 403 } });
  expect(error.message).not.toMatch(/[\p{Cc}\p{Cf}]/u);
  expect(error.message.length).toBeLessThan(500);
});

it('hands on how long a limited client should wait', async () => {
  const client = await hostile((socket) => socket.write('HTTP/1.1 429 X\r\nRetry-After: 7\r\nContent-Length: 2\r\n\r\n{}'));
  await expect(client.handshake({ nonce: 'n', clientKey: 'k' })).rejects.toMatchObject({ retryAfterMs: 7000 });
});

it('reads no endless answer', async () => {
  const client = await hostile((socket) => {
    socket.write('HTTP/1.1 200 X\r\nTransfer-Encoding: chunked\r\n\r\n');
    const more = () => {
      while (!socket.destroyed && socket.write(`10000\r\n${' '.repeat(65536)}\r\n`)) {}
    };
    socket.on('drain', more);
    more();
  });
  await expect(client.health()).rejects.toMatchObject({
    code: 'handshake_failed',
    message: expect.stringContaining('more than'),
  });
});

it.each([
  ['another id', { ...info, id: 'two' }],
  ['another workspace', { ...info, workspace_path: '/etc' }],
  ['a wild port', { ...info, port: 99999 }],
  ['a huge text', { ...info, status: 'x'.repeat(5000) }],
  ['an impossible exit code', { ...info, command: { pid: 1, exitCode: 1e9, signal: null } }],
  ['an impossible signal', { ...info, command: { pid: 1, exitCode: 1, signal: '\u001b' } }],
])('does not believe an instance with %s', async (_what, body) => {
  const client = await answers(200, body);
  await expect(client.ensureInstance({ id: 'one', workspace_path: '/workspace' })).rejects.toMatchObject({
    code: 'handshake_failed',
  });
});

it('finds the instance when the answer to its creation is lost', async () => {
  const asked: string[] = [];
  const client = await hostile((socket, head) => {
    asked.push(head.split(' ')[0] ?? '');
    if (head.startsWith('POST')) socket.destroy();
    else socket.write(json(200, info));
  });
  expect(await client.ensureInstance({ id: 'one', workspace_path: '/workspace' })).toEqual(info);
  expect(asked).toEqual(['POST', 'GET']);
});

it('fails with the lost answer when the instance was not created', async () => {
  const client = await hostile((socket, head) => (head.startsWith('POST') ? socket.destroy() : socket.write(json(404, {}))));
  await expect(client.ensureInstance({ id: 'one', workspace_path: '/workspace' })).rejects.toMatchObject({
    code: 'forward_lost',
  });
});

it('does not take the instance of another workspace for its own when the answer to its creation is lost', async () => {
  const other = { ...info, workspace_path: '/elsewhere' };
  const asked: string[] = [];
  const client = await hostile((socket, head) => {
    asked.push(head.split(' ')[0] ?? '');
    if (head.startsWith('POST')) socket.destroy();
    else socket.write(json(200, other));
  });
  await expect(client.ensureInstance({ id: 'one', workspace_path: '/workspace' })).rejects.toMatchObject({
    code: 'handshake_failed',
    message: expect.stringContaining('/elsewhere'),
  });
  expect(asked).toEqual(['POST', 'GET']);
});

it('reports a refused connection and one that ends early as forward_lost', async () => {
  const nobody = createAgentClient({ host: '127.0.0.1', port: await freePort(), instanceId: 'one' });
  await expect(nobody.health()).rejects.toMatchObject({ code: 'forward_lost', message: expect.stringContaining('ECONNREFUSED') });
  const exec = nobody.exec({ command: ['true'], stdin: false }, { stdout: sink(), stderr: sink() });
  await expect(exec).rejects.toMatchObject({ code: 'forward_lost' });
  const half = await hostile((socket) => socket.end('HTTP/1.1 200 X\r\nContent-Length: 100\r\n\r\n{'));
  await expect(half.health()).rejects.toMatchObject({ code: 'forward_lost' });
});

it('goes on over a new connection when a kept one has died', async () => {
  let served = 0;
  const body = { status: 'ok', timestamp: 'x', protocol: 1 };
  const client = await hostile((socket) => {
    served++;
    if (served === 2) socket.destroy();
    else socket.write(json(200, body));
  });
  await client.health();
  expect(await client.health()).toEqual(body);
  expect(served).toBe(3);
});

it('ends with the reason of the abort while the agent is silent', async () => {
  const client = await hostile(() => {});
  const stop = new AbortController();
  const calls = [
    client.health(stop.signal),
    client.exec({ command: ['true'], stdin: false }, { stdout: sink(), stderr: sink(), signal: stop.signal }),
  ];
  stop.abort(new Error('stopped'));
  for (const call of calls) await expect(call).rejects.toThrow('stopped');
});

const upgraded = 'HTTP/1.1 101 X\r\nConnection: Upgrade\r\nUpgrade: windlass-exec\r\n\r\n';
const exec = async (bytes: Uint8Array, end = true) => {
  const client = await hostile((socket) => {
    socket.write(upgraded);
    socket.write(bytes);
    if (end) socket.end();
  });
  return client.exec({ command: ['true'], stdin: false }, { stdout: sink(), stderr: sink() });
};
const exit = (body: unknown) => encodeFrame(4, Buffer.from(JSON.stringify(body)));

it.each([
  ['ends without an exit frame', encodeFrame(2, Buffer.from('output')), true],
  ['ends within a frame', encodeFrame(2, Buffer.from('output')).subarray(0, 8), true],
  ['sends a frame larger than allowed', Buffer.from([2, 0xff, 0xff, 0xff, 0xff]), false],
  ['sends on a channel that is ours', encodeFrame(1, Buffer.from('x')), false],
  ['sends on a channel that nobody knows', encodeFrame(9, Buffer.from('x')), false],
  ['sends an exit that is no JSON', encodeFrame(4, Buffer.from('{')), false],
  ['sends an impossible exit code', exit({ exitCode: -1, signal: null, timedOut: false }), false],
  ['sends an incomplete exit', exit({ exitCode: 0 }), false],
])('loses the exec when the agent %s', async (_what, bytes, end) => {
  await expect(exec(bytes, end)).rejects.toMatchObject({ code: 'exec_lost' });
});

it('ends with the exit frame although the agent keeps the connection and sends more', async () => {
  const good = { exitCode: 3, signal: null, timedOut: false };
  expect(
    await exec(Buffer.concat([exit(good), encodeFrame(2, Buffer.from('late')), exit({ ...good, exitCode: 0 })]), false),
  ).toEqual(good);
});

it('fails when the caller can no longer take the output', async () => {
  const client = await hostile((socket) =>
    socket.write(Buffer.concat([Buffer.from(upgraded), encodeFrame(2, Buffer.from('x'))])),
  );
  const stdout = sink();
  stdout.destroy();
  await expect(client.exec({ command: ['true'], stdin: false }, { stdout, stderr: sink() })).rejects.toThrow();
});

it('publishes what it does to the agent on the effect channel', async () => {
  const client = await answers(201, info);
  const names = await effectNames(() => client.ensureInstance({ id: 'one', workspace_path: '/workspace' }));
  expect(names).toEqual(['before agent.create one', 'after agent.create one']);
});
