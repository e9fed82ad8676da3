import { connect, type Socket } from 'node:net';
import { PassThrough, Writable } from 'node:stream';
import { afterEach, describe, expect, it } from 'vitest';
import type { WebSocket } from 'ws';
import { createAgentClient } from '../../../src/agent/client.ts';
import { createClusters } from '../../../src/kubernetes/clusters.ts';
import type { Cluster, Clusters } from '../../../src/kubernetes/port.ts';
import { failure, quietLog, type StubHandlers, type StubServer, startStub, until } from './stub-server.ts';

let stub: StubServer;
let clusters: Clusters;

async function clusterOn(handlers: StubHandlers): Promise<Cluster> {
  stub = await startStub(handlers);
  clusters = createClusters({ main: stub.config() }, { installation: 'local', dir: stub.dir, log: quietLog });
  return clusters.get('main');
}
afterEach(async () => {
  await clusters.close();
  await stub.close();
});

const frame = (channel: number, payload: Uint8Array | string): Buffer =>
  Buffer.concat([Buffer.from([channel]), Buffer.from(payload)]);
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
    const cluster = await clusterOn({
      socket(socket) {
        socket.send(frame(1, 'out'));
        socket.send(frame(2, 'err'));
        socket.send(frame(3, exited(42)));
      },
    });
    expect(await run(cluster)).toEqual({ exitCode: 42, stdout: 'out', stderr: 'err' });
    const url = stub.received[0]?.url;
    expect(url?.pathname).toBe('/api/v1/namespaces/sandboxes/pods/windlass-x/exec');
    expect(url?.searchParams.getAll('command')).toEqual(['run', 'a b', '$x']);
    expect([...(url?.searchParams.keys() ?? [])].filter((key) => key !== 'command')).toEqual(['container', 'stdout', 'stderr']);
    expect(stub.received[0]?.headers.authorization).toBe('Bearer secret-token');
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
  it.each(endings)('is exec_lost at once when the server %s', async (_name, end) => {
    const cluster = await clusterOn({
      socket(socket) {
        socket.send(frame(1, 'half'));
        end(socket);
      },
    });
    const started = performance.now();
    await expect(run(cluster)).rejects.toMatchObject({ code: 'exec_lost', retriable: true });
    expect(performance.now() - started).toBeLessThan(1000 + 1500);
  });

  it('has an end even when the server has none', async () => {
    const cluster = await clusterOn({ socket: () => {} });
    await expect(run(cluster, { timeoutMs: 100 })).rejects.toMatchObject({ code: 'exec_lost' });
    await until('the connection closed', () => stub.sockets.size === 0);
  });

  it('has an end when the upgrade is never answered', async () => {
    const cluster = await clusterOn({ refuseUpgrade: () => 'hang' });
    await expect(run(cluster, { timeoutMs: 100 })).rejects.toMatchObject({ code: 'exec_lost' });
    await until('the connection closed', () => stub.sockets.size === 0);
  });

  const refusals: [number, string, string, string][] = [
    [404, 'NotFound', 'pods "windlass-x" not found', 'pod_disrupted'],
    [403, 'Forbidden', 'pods "x" is forbidden: User "u" cannot create resource "pods/exec"', 'permission_denied'],
    [429, 'TooManyRequests', 'slow', 'throttled'],
    [500, 'InternalError', 'error dialing backend', 'cluster_unreachable'],
  ];
  it.each(refusals)('classifies a refused upgrade: %i', async (status, reason, message, code) => {
    const cluster = await clusterOn({
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
      const cluster = await clusterOn({
        socket: (socket) => socket.send(frame(3, JSON.stringify({ status: 'Failure', reason: 'InternalError', message }))),
      });
      expect(await run(cluster)).toEqual({ exitCode, stdout: '', stderr: `windlass: "${program}": ${words}\n` });
    },
  );

  it('C67: takes new credentials after a 401 and tries once more', async () => {
    const cluster = await clusterOn({ refuseUpgrade: () => ({ status: 401, body: '{}' }) });
    await expect(run(cluster)).rejects.toMatchObject({ code: 'permission_denied' });
    expect(stub.received).toHaveLength(2);
  });

  it('ignores what comes on unknown channels and after the status', async () => {
    const cluster = await clusterOn({
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
    const cluster = await clusterOn({
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
    const cluster = await clusterOn({
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
    const cluster = await clusterOn({ socket: (socket) => socket.send(frame(3, success)) });
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
    const cluster = await clusterOn({
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
    const cluster = await clusterOn({
      socket(socket) {
        const timer = setInterval(() => socket.send(frame(1, 'x'.repeat(1000))), 5);
        socket.on('close', () => clearInterval(timer));
      },
    });
    const stdout = new Writable({ highWaterMark: 1, write: (_chunk, _encoding, done) => done(new Error('disk full')) });
    await expect(run(cluster, { stdout })).rejects.toThrow('disk full');
    await until('the connection closed', () => stub.sockets.size === 0);
  });
});

describe('forward', () => {
  const header = Buffer.from([0x3d, 0x22]);
  const greet = (socket: WebSocket): void => {
    socket.send(frame(0, header));
    socket.send(frame(1, header));
  };
  const echo = (socket: WebSocket): void => {
    greet(socket);
    socket.on('message', (data: Buffer) => {
      if (data[0] !== 0) return;
      socket.pause();
      socket.send(frame(0, data.subarray(1)), () => socket.resume());
    });
  };
  const open = (port: number): Promise<Socket> =>
    new Promise((resolve, reject) => {
      const socket = connect(port, '127.0.0.1', () => resolve(socket));
      socket.once('error', reject);
    });
  /** How a connection ends: everything it received, or the error's code. */
  const endOf = (socket: Socket): Promise<string> =>
    new Promise((resolve) => {
      let text = '';
      socket.on('data', (chunk: Buffer) => {
        text += chunk.toString();
      });
      socket.once('end', () => resolve(text));
      socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? 'error'));
    });

  it('gives each connection its own stream, and loses nothing of 10 MB', async () => {
    const cluster = await clusterOn({ protocols: ['v4.channel.k8s.io'], socket: echo });
    const forward = await cluster.forward('windlass-x', 8765);
    const size = 10 << 20;
    const socket = await open(forward.port);
    let got = 0;
    socket.on('data', (chunk: Buffer) => {
      got += chunk.length;
    });
    socket.write(Buffer.alloc(size));
    await until('the echo', () => got === size, 20_000);
    const other = await open(forward.port);
    other.write('hello');
    await until('the second stream', () => stub.received.filter(({ method }) => method === 'UPGRADE').length === 2);
    expect(stub.received[0]?.url.searchParams.get('ports')).toBe('8765');
    await forward.close();
    await until('all closed', () => stub.sockets.size === 0);
    expect(socket.destroyed || socket.readableEnded).toBe(true);
  }, 30_000);

  it('listens on 127.0.0.1 only', async () => {
    const cluster = await clusterOn({ protocols: ['v4.channel.k8s.io'], socket: echo });
    const forward = await cluster.forward('windlass-x', 8765);
    (await open(forward.port)).destroy();
    // Another address of this machine: a listener on every address would answer here too.
    const elsewhere = connect(forward.port, '127.0.0.2');
    await expect(new Promise((resolve, reject) => elsewhere.once('connect', resolve).once('error', reject))).rejects.toThrow();
    await forward.close();
  });

  it('gives up a stream whose upgrade is never answered when it is closed', async () => {
    const cluster = await clusterOn({ refuseUpgrade: () => 'hang' });
    const controller = new AbortController();
    const forward = await cluster.forward('windlass-x', 8765, { signal: controller.signal });
    const socket = await open(forward.port);
    const ended = endOf(socket);
    await until('the upgrade', () => stub.received.some(({ method }) => method === 'UPGRADE'));
    controller.abort();
    await ended;
    await until('the connection closed', () => stub.sockets.size === 0);
    await forward.close();
  });

  it('C62: keeps an error that comes with the port headers, and resets the connection', async () => {
    const cluster = await clusterOn({
      protocols: ['v4.channel.k8s.io'],
      socket(socket) {
        socket.send(frame(0, header));
        socket.send(frame(1, Buffer.concat([header, Buffer.from('connection refused')])));
      },
    });
    const forward = await cluster.forward('windlass-x', 8765);
    expect(await endOf(await open(forward.port))).toBe('ECONNRESET');
    await forward.close();
  });

  it('resets when the stream cannot be opened, and works again when it can', async () => {
    let refuse = true;
    const cluster = await clusterOn({
      protocols: ['v4.channel.k8s.io'],
      refuseUpgrade: () => (refuse ? { status: 500, body: '{}' } : undefined),
      socket: echo,
    });
    const forward = await cluster.forward('windlass-x', 8765);
    expect(await endOf(await open(forward.port))).toBe('ECONNRESET');
    refuse = false;
    const socket = await open(forward.port);
    socket.write('hi');
    await new Promise<void>((resolve) => socket.once('data', () => resolve()));
    socket.destroy();
    await forward.close();
  });

  it('keeps an answer that comes after the local side has ended, and tells a clean end from a broken one', async () => {
    let broken = false;
    const cluster = await clusterOn({
      protocols: ['v4.channel.k8s.io'],
      socket(socket) {
        greet(socket);
        socket.on('message', () => {
          if (broken) socket.terminate();
          else
            setTimeout(() => {
              socket.send(frame(0, 'late answer'));
              socket.close();
            }, 50);
        });
      },
    });
    const forward = await cluster.forward('windlass-x', 8765);
    const polite = await open(forward.port);
    polite.end('question');
    expect(await endOf(polite)).toBe('late answer');
    broken = true;
    const cut = await open(forward.port);
    cut.write('question');
    expect(await endOf(cut)).toBe('ECONNRESET');
    await forward.close();
  });

  it('C62: leaks nothing over 100 connections, and ends with its signal', async () => {
    const cluster = await clusterOn({ protocols: ['v4.channel.k8s.io'], socket: echo });
    const controller = new AbortController();
    const forward = await cluster.forward('windlass-x', 8765, { signal: controller.signal });
    for (let index = 0; index < 100; index += 1) {
      const socket = await open(forward.port);
      if (index % 2 === 0) {
        socket.write('x');
        await new Promise<void>((resolve) => socket.once('data', () => resolve()));
      }
      socket.destroy();
    }
    await until('all streams closed', () => stub.sockets.size === 0, 10_000);
    controller.abort();
    await expect(open(forward.port)).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  }, 20_000);

  it('says why the way into the Pod is closed, and the agent client says it in place of a lost connection', async () => {
    const message =
      'pods "windlass-x" is forbidden: User "worker" cannot create resource "pods/portforward" in API group "" in the namespace "sandboxes"';
    const forbidden = JSON.stringify({ kind: 'Status', status: 'Failure', reason: 'Forbidden', code: 403, message });
    let refuse = true;
    const cluster = await clusterOn({
      protocols: ['v4.channel.k8s.io'],
      refuseUpgrade: () => (refuse ? { status: 403, body: forbidden } : undefined),
      socket: echo,
    });
    const forward = await cluster.forward('windlass-x', 8765);
    expect(forward.trouble()).toBeUndefined();
    const { port, trouble } = forward;
    const agent = createAgentClient({ host: '127.0.0.1', port, instanceId: 'x', trouble });
    await expect(agent.health()).rejects.toMatchObject({
      code: 'permission_denied',
      message: expect.stringContaining('pods/portforward'),
    });
    refuse = false;
    (await open(port)).destroy();
    await until('the stream opened', () => forward.trouble() === undefined, 5000);
    await forward.close();
  });

  it('says so when the wanted port is taken', async () => {
    const cluster = await clusterOn({});
    const first = await cluster.forward('windlass-x', 8765);
    await expect(cluster.forward('windlass-x', 8765, { localPort: first.port })).rejects.toMatchObject({ code: 'forward_lost' });
    await first.close();
  });
});
