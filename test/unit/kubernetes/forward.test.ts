import { connect, type Socket } from 'node:net';
import { describe, expect, it } from 'vitest';
import type { WebSocket } from 'ws';
import { createAgentClient } from '../../../src/agent/client.ts';
import { frame, useStubCluster } from './stub-cluster.ts';
import { until } from './stub-server.ts';

const server = useStubCluster();

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
    const cluster = await server.clusterOn({ protocols: ['v4.channel.k8s.io'], socket: echo });
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
    await until('the second stream', () => server.stub.received.filter(({ method }) => method === 'UPGRADE').length === 2);
    expect(server.stub.received[0]?.url.searchParams.get('ports')).toBe('8765');
    await forward.close();
    await until('all closed', () => server.stub.sockets.size === 0);
    expect(socket.destroyed || socket.readableEnded).toBe(true);
  }, 30_000);

  it('listens on 127.0.0.1 only', async () => {
    const cluster = await server.clusterOn({ protocols: ['v4.channel.k8s.io'], socket: echo });
    const forward = await cluster.forward('windlass-x', 8765);
    (await open(forward.port)).destroy();
    // Another address of this machine: a listener on every address would answer here too.
    const elsewhere = connect(forward.port, '127.0.0.2');
    await expect(new Promise((resolve, reject) => elsewhere.once('connect', resolve).once('error', reject))).rejects.toThrow();
    await forward.close();
  });

  it('gives up a stream whose upgrade is never answered when it is closed', async () => {
    const cluster = await server.clusterOn({ refuseUpgrade: () => 'hang' });
    const controller = new AbortController();
    const forward = await cluster.forward('windlass-x', 8765, { signal: controller.signal });
    const socket = await open(forward.port);
    const ended = endOf(socket);
    await until('the upgrade', () => server.stub.received.some(({ method }) => method === 'UPGRADE'));
    controller.abort();
    await ended;
    await until('the connection closed', () => server.stub.sockets.size === 0);
    await forward.close();
  });

  it('C62: keeps an error that comes with the port headers, and resets the connection', async () => {
    const cluster = await server.clusterOn({
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
    const cluster = await server.clusterOn({
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
    const cluster = await server.clusterOn({
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
    const cluster = await server.clusterOn({ protocols: ['v4.channel.k8s.io'], socket: echo });
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
    await until('all streams closed', () => server.stub.sockets.size === 0, 10_000);
    controller.abort();
    await expect(open(forward.port)).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  }, 20_000);

  it('says why the way into the Pod is closed, and the agent client says it in place of a lost connection', async () => {
    const message =
      'pods "windlass-x" is forbidden: User "worker" cannot create resource "pods/portforward" in API group "" in the namespace "sandboxes"';
    const forbidden = JSON.stringify({ kind: 'Status', status: 'Failure', reason: 'Forbidden', code: 403, message });
    let refuse = true;
    const cluster = await server.clusterOn({
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
    const cluster = await server.clusterOn({});
    const first = await cluster.forward('windlass-x', 8765);
    await expect(cluster.forward('windlass-x', 8765, { localPort: first.port })).rejects.toMatchObject({ code: 'forward_lost' });
    await first.close();
  });
});
