import { createServer, type Server } from 'node:http';
import type { AddressInfo } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { type Api, podBody, startApi } from './local-cluster-client.ts';

let api: Api;
const pod = '/api/v1/namespaces/default/pods/p';
const v5 = ['v5.channel.k8s.io'];

interface Session {
  readonly protocol: string;
  readonly output: Record<number, string>;
  readonly status: { status: string; reason?: string; message?: string; details?: { causes: { message: string }[] } } | undefined;
  readonly closeCode: number;
}

/** Runs a session to its end; `act` sends what the test has to say once the socket is open. */
function session(path: string, protocols: string[], act?: (socket: ReturnType<Api['socket']>) => void): Promise<Session> {
  const socket = api.socket(path, protocols);
  const chunks: Record<number, Buffer[]> = {};
  socket.on('message', (raw: Buffer) => {
    const channel = raw[0] ?? 255;
    chunks[channel] = [...(chunks[channel] ?? []), raw.subarray(1)];
  });
  socket.on('open', () => act?.(socket));
  return new Promise((resolve, reject) => {
    socket.on('unexpected-response', (_request, response) => {
      let text = '';
      response.on('data', (data) => {
        text += data;
      });
      response.on('end', () => reject(JSON.parse(text)));
    });
    socket.on('error', reject);
    socket.on('close', (closeCode) => {
      const output = Object.fromEntries(
        Object.entries(chunks).map(([channel, parts]) => [channel, Buffer.concat(parts).toString()]),
      );
      const isExec = path.includes('/exec') || path.includes('/attach');
      const status = isExec && output[3] ? JSON.parse(output[3]) : undefined;
      resolve({ protocol: socket.protocol, output, status, closeCode });
    });
  });
}

const exec = (command: string[], extra = '&stdout=true&stderr=true') =>
  `${pod}/exec?${command.map((word) => `command=${encodeURIComponent(word)}`).join('&')}${extra}`;

beforeAll(async () => {
  api = await startApi();
  await api.call('POST', '/api/v1/namespaces/default/pods', podBody('p'));
  await api.call('POST', '/api/v1/namespaces/default/pods', podBody('unscheduled', { nodeSelector: { no: 'node' } }));
  const two = [
    { name: 'a', image: 'x' },
    { name: 'b', image: 'x' },
  ];
  await api.call('POST', '/api/v1/namespaces/default/pods', podBody('two', { containers: two }));
});
afterAll(() => api.close());

describe('exec', () => {
  it('sends both outputs and then the status', async () => {
    const { output, status, closeCode } = await session(exec(['sh', '-c', 'echo out; echo err >&2']), v5);
    expect(output).toMatchObject({ 1: 'out\n', 2: 'err\n' });
    expect(status).toEqual({ metadata: {}, status: 'Success' });
    expect(closeCode).toBe(1000);
  });

  it('reports the exit code as a cause', async () => {
    const { status } = await session(exec(['sh', '-c', 'exit 7']), v5);
    expect(status).toMatchObject({
      status: 'Failure',
      reason: 'NonZeroExitCode',
      details: { causes: [{ reason: 'ExitCode', message: '7' }] },
    });
  });

  it('closes stdin by the v5 frame and keeps binary data intact', async () => {
    const data = Buffer.from(Array.from({ length: 200_000 }, (_, index) => index % 256));
    const { output } = await session(exec(['sh', '-c', 'cat | cksum'], '&stdin=true&stdout=true'), v5, (socket) => {
      for (let at = 0; at < data.length; at += 32_768)
        socket.send(Buffer.concat([Buffer.from([0]), data.subarray(at, at + 32_768)]));
      socket.send(Buffer.from([255, 0]));
    });
    expect(output[1]).toMatch(/^\d+ 200000\n$/);
  });

  it('speaks v4 to those who know no better', async () => {
    const { protocol, output } = await session(
      exec(['head', '-c', '3'], '&stdin=true&stdout=true'),
      ['v4.channel.k8s.io'],
      (socket) => socket.send(Buffer.from('\0abcdef')),
    );
    expect([protocol, output[1]]).toEqual(['v4.channel.k8s.io', 'abc']);
  });

  it('delivers a lot of output whole', async () => {
    const { output } = await session(exec(['head', '-c', '20000000', '/dev/zero']), v5);
    expect(output[1]).toHaveLength(20_000_000);
  });

  it('says on the error channel what the node refuses, and what is missing', async () => {
    const { status } = await session(exec(['ls'], ''), v5);
    expect(status).toMatchObject({
      reason: 'InternalError',
      message: expect.stringContaining('you must specify at least 1 of stdin, stdout, stderr'),
    });
  });

  it.each([
    ['nope/exec?command=ls&stdout=true', 404, 'pods "nope" not found'],
    ['unscheduled/exec?command=ls&stdout=true', 400, 'pod unscheduled does not have a host assigned'],
    ['two/exec?command=ls&stdout=true', 400, 'a container name must be specified for pod two, choose one of: [a b]'],
    ['p/exec?command=ls&stdout=true&container=z', 400, 'container z is not valid for pod p'],
  ])('refuses %s before the upgrade', async (path, code, message) => {
    await expect(session(`/api/v1/namespaces/default/pods/${path}`, v5)).rejects.toMatchObject({ code, message });
  });

  it('answers a request without upgrade, and one for SPDY, with 400', async () => {
    expect((await api.call('POST', exec(['ls']))).body.message).toBe('Upgrade request required');
    await expect(session(exec(['ls']), ['v9.channel.k8s.io'])).rejects.toMatchObject({ code: 403 });
  });
});

describe('port forward', () => {
  let server: Server;
  let port: number;
  beforeAll(async () => {
    server = createServer((request, response) => response.end(`hello ${request.url}`));
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
    port = (server.address() as AddressInfo).port;
  });
  afterAll(() => void server.close());

  it('opens both channels with the port and carries bytes both ways', async () => {
    const { output } = await session(`${pod}/portforward?ports=${port}`, ['v4.channel.k8s.io'], (socket) =>
      socket.send(Buffer.from('\0GET /x HTTP/1.0\r\n\r\n')),
    );
    const header = Buffer.alloc(2);
    header.writeUInt16LE(port);
    expect(output[1]).toBe(header.toString());
    expect(output[0]?.startsWith(header.toString())).toBe(true);
    expect(output[0]).toContain('hello /x');
  });

  it('says on the error channel that nothing listens', async () => {
    const { output } = await session(`${pod}/portforward?ports=1`, ['v4.channel.k8s.io']);
    expect(output[1]).toContain('error forwarding port 1 to pod');
  });

  it('needs a port', async () => {
    await expect(session(`${pod}/portforward`, ['v4.channel.k8s.io'])).rejects.toMatchObject({ code: 400 });
  });
});

describe('logs', () => {
  it('are plain text', async () => {
    const { body, headers } = await api.call('GET', `${pod}/log`);
    expect([body, headers['content-type']]).toEqual(['line one\nline two\n', 'text/plain']);
  });

  it('are refused with the reason of the server or the node', async () => {
    const message = async (query: string) => (await api.call('GET', `${pod}/log?${query}`)).body.message;
    expect(await message('container=z')).toBe('container z is not valid for pod p');
    expect(await message('tailLines=-1')).toContain('must be greater than or equal to 0');
    expect(await message('previous=true')).toBe('previous terminated container not found');
    expect((await api.call('GET', '/api/v1/namespaces/default/pods/nope/log')).code).toBe(404);
    expect((await api.call('GET', '/api/v1/namespaces/default/pods/unscheduled/log')).body).toBe('');
  });
});
