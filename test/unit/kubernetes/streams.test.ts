import { PassThrough, Writable } from 'node:stream';
import { describe, expect, it } from 'vitest';
import type { WebSocket } from 'ws';
import type { Cluster } from '../../../src/kubernetes/port.ts';
import { frame, useStubCluster } from './stub-cluster.ts';
import { failure, until } from './stub-server.ts';

const server = useStubCluster();
const success = JSON.stringify({ status: 'Success' });
const exited = (code: number): string =>
  JSON.stringify({
    status: 'Failure',
    reason: 'NonZeroExitCode',
    details: { causes: [{ reason: 'ExitCode', message: String(code) }] },
  });
const target = { pod: 'windlass-x', container: 'agent' };
const run = (cluster: Cluster, options = {}) => cluster.exec(target, ['run', 'a b', '$x'], options);

describe('exec', () => {
  it('asks for what it needs and gives back the exit code', async () => {
    const cluster = await server.clusterOn({
      socket(socket) {
        socket.send(frame(1, 'out'));
        socket.send(frame(2, 'err'));
        socket.send(frame(3, exited(42)));
      },
    });
    expect(await run(cluster)).toEqual({ exitCode: 42, stdout: 'out', stderr: 'err' });
    const url = server.stub.received[0]?.url;
    expect(url?.pathname).toBe('/api/v1/namespaces/sandboxes/pods/windlass-x/exec');
    expect(url?.searchParams.getAll('command')).toEqual(['run', 'a b', '$x']);
    expect([...(url?.searchParams.keys() ?? [])].filter((key) => key !== 'command')).toEqual(['container', 'stdout', 'stderr']);
    expect(server.stub.received[0]?.headers.authorization).toBe('Bearer secret-token');
  });

  const endings: [string, (socket: WebSocket) => void][] = [
    ['C57: closes without a status', (socket) => socket.close()],
    ['C58: drops the connection', (socket) => socket.terminate()],
    ['sends a status that is no JSON', (socket) => socket.send(frame(3, '{'))],
    [
      'cannot run the command',
      (socket) => socket.send(frame(3, JSON.stringify({ status: 'Failure', message: 'container not running' }))),
    ],
  ];
  // Long before its own time is over: nothing but the end of the socket can end it within the time of a test.
  it.each(endings)('is exec_lost when the server %s', async (_name, end) => {
    const cluster = await server.clusterOn({
      socket(socket) {
        socket.send(frame(1, 'half'));
        end(socket);
      },
    });
    await expect(run(cluster, { timeoutMs: 600_000 })).rejects.toMatchObject({ code: 'exec_lost', retriable: true });
  });

  it('has an end even when the server has none', async () => {
    const cluster = await server.clusterOn({ socket: () => {} });
    await expect(run(cluster, { timeoutMs: 100 })).rejects.toMatchObject({ code: 'exec_lost' });
    await until('the connection closed', () => server.stub.sockets.size === 0);
  });

  it('has an end when the upgrade is never answered', async () => {
    const cluster = await server.clusterOn({ refuseUpgrade: () => 'hang' });
    await expect(run(cluster, { timeoutMs: 100 })).rejects.toMatchObject({ code: 'exec_lost' });
    await until('the connection closed', () => server.stub.sockets.size === 0);
  });

  const refusals: [number, string, string, string][] = [
    [404, 'NotFound', 'pods "windlass-x" not found', 'pod_disrupted'],
    [403, 'Forbidden', 'pods "x" is forbidden: User "u" cannot create resource "pods/exec"', 'permission_denied'],
    [429, 'TooManyRequests', 'slow', 'throttled'],
    [500, 'InternalError', 'error dialing backend', 'cluster_unreachable'],
  ];
  it.each(refusals)('classifies a refused upgrade: %i', async (status, reason, message, code) => {
    const cluster = await server.clusterOn({
      refuseUpgrade: () => ({ status, body: JSON.stringify(failure(status, reason, message)) }),
    });
    await expect(run(cluster)).rejects.toMatchObject({ code, message: expect.stringContaining(message) });
  });

  it.each([
    ['no-such', 127, 'executable file not found in $PATH'],
    ['/workspace', 126, 'permission denied'],
  ])(
    'C51: says of %s that it cannot be started as a shell does: %i, in the words of the runtime',
    async (program, exitCode, words) => {
      const message = `Internal error occurred: error executing command in container: failed to exec in container: failed to start exec "0f": OCI runtime exec failed: exec failed: unable to start container process: exec: "${program}": ${words}: unknown`;
      const cluster = await server.clusterOn({
        socket: (socket) => socket.send(frame(3, JSON.stringify({ status: 'Failure', reason: 'InternalError', message }))),
      });
      expect(await run(cluster)).toEqual({ exitCode, stdout: '', stderr: `windlass: "${program}": ${words}\n` });
    },
  );

  it('C67: takes new credentials after a 401 and tries once more', async () => {
    const cluster = await server.clusterOn({ refuseUpgrade: () => ({ status: 401, body: '{}' }) });
    await expect(run(cluster)).rejects.toMatchObject({ code: 'permission_denied' });
    expect(server.stub.received).toHaveLength(2);
  });

  it('ignores what comes on unknown channels and after the status', async () => {
    const cluster = await server.clusterOn({
      socket(socket) {
        socket.send(frame(255, Buffer.from([1])));
        socket.send(frame(9, 'what'));
        socket.send(Buffer.alloc(0));
        socket.send(frame(3, success));
        socket.send(frame(1, 'late'));
        socket.send(frame(3, exited(1)));
      },
    });
    expect(await run(cluster)).toEqual({ exitCode: 0, stdout: '', stderr: '' });
  });

  const received = (socket: WebSocket): Promise<Buffer> =>
    new Promise((resolve) => {
      const parts: Buffer[] = [];
      socket.on('message', (data: Buffer) => {
        if (data[0] === 255) resolve(Buffer.concat(parts));
        else parts.push(data.subarray(1));
      });
    });

  it('sends stdin whole and says where it ends', async () => {
    const cluster = await server.clusterOn({
      async socket(socket) {
        socket.send(frame(1, String((await received(socket)).length)));
        socket.send(frame(3, success));
      },
    });
    expect((await run(cluster, { stdin: Buffer.alloc(300_000) })).stdout).toBe('300000');
    const stream = new PassThrough();
    const call = run(cluster, { stdin: stream });
    stream.write('abc');
    stream.end('de');
    expect((await call).stdout).toBe('5');
    expect((await run(cluster, { stdin: new Uint8Array() })).stdout).toBe('0');
  });

  it('leaves stdin open where the server cannot end it', async () => {
    let closed = 0;
    const cluster = await server.clusterOn({
      protocols: ['v4.channel.k8s.io'],
      socket(socket) {
        socket.on('message', (data: Buffer) => {
          if (data[0] === 255) closed += 1;
          else if (data.includes('end')) {
            socket.send(frame(1, 'got it'));
            setTimeout(() => socket.send(frame(3, success)), 50);
          }
        });
      },
    });
    expect(await run(cluster, { stdin: Buffer.from('data end') })).toMatchObject({ exitCode: 0, stdout: 'got it' });
    expect(closed).toBe(0);
  });

  it('lets go of a stdin that never ends', async () => {
    const cluster = await server.clusterOn({ socket: (socket) => socket.send(frame(3, success)) });
    const stdin = new PassThrough();
    stdin.write('x');
    expect((await run(cluster, { stdin })).exitCode).toBe(0);
    expect(stdin.listenerCount('data')).toBe(0);
    expect(stdin.destroyed).toBe(false);
  });

  it('holds the server back when the sink is slow, and loses nothing', async () => {
    const total = 30 << 20;
    let sent = 0;
    let mostAhead = 0;
    let taken = 0;
    const cluster = await server.clusterOn({
      async socket(socket) {
        const chunk = frame(1, Buffer.alloc(64 * 1024));
        while (sent < total) {
          await new Promise((resolve) => socket.send(chunk, resolve));
          sent += 64 * 1024;
          mostAhead = Math.max(mostAhead, sent - taken);
        }
        socket.send(frame(3, success));
        socket.close();
      },
    });
    const stdout = new Writable({
      highWaterMark: 256 * 1024,
      write(chunk: Buffer, _encoding, done) {
        taken += chunk.length;
        setTimeout(done, taken < 4 << 20 ? 2 : 0);
      },
    });
    expect((await run(cluster, { stdout })).exitCode).toBe(0);
    await until('the last write', () => taken === total);
    expect(mostAhead).toBeLessThan(24 << 20);
  });

  it('fails when the sink does', async () => {
    const cluster = await server.clusterOn({
      socket(socket) {
        const timer = setInterval(() => socket.send(frame(1, 'x'.repeat(1000))), 5);
        socket.on('close', () => clearInterval(timer));
      },
    });
    const stdout = new Writable({ highWaterMark: 1, write: (_chunk, _encoding, done) => done(new Error('disk full')) });
    await expect(run(cluster, { stdout })).rejects.toThrow('disk full');
    await until('the connection closed', () => server.stub.sockets.size === 0);
  });
});
