import { once } from 'node:events';
import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { eventually } from '../support/kube-http.ts';
import { openTarget, podOf } from './target.ts';

const target = await openTarget();
const server = `require('net').createServer({ allowHalfOpen: true }, (s) => s.pipe(s)).listen(8765, process.env.ADDRESS)`;

/** Sends and gives back what came until the other side ended. */
async function echo(port: number, text: string): Promise<string> {
  const socket = connect(port, '127.0.0.1');
  let got = '';
  socket.on('data', (data) => {
    got += data;
    if (got.length >= text.length) socket.end();
  });
  socket.write(text);
  await once(socket, 'close');
  return got;
}

beforeAll(async () => {
  // From the environment, where a node without a sandbox puts the Pod's own loopback in its place.
  const container = {
    image: 'node:local',
    command: ['node', '-e', server],
    env: [{ name: 'ADDRESS', value: '127.0.0.1' }],
  };
  await target.create('pods', podOf(target, 'server', '', {}, container));
  await target.until('pods/server', ({ status }) => status.phase === 'Running');
});
afterAll(() => target.close());

describe('a forward', () => {
  it('carries connections side by side to a port on the loopback of the Pod', async () => {
    const forward = await target.cluster.forward('server', 8765);
    await eventually(async () => ((await echo(forward.port, 'x').catch(() => '')) === 'x' ? true : undefined), 30);
    const texts = Array.from({ length: 5 }, (_, index) => String(index).repeat(100_000));
    expect(await Promise.all(texts.map((text) => echo(forward.port, text)))).toEqual(texts);
    await forward.close();
  });

  it('ends a connection to a port where nobody listens', async () => {
    const forward = await target.cluster.forward('server', 9);
    const socket = connect(forward.port, '127.0.0.1');
    // Ended or reset: which one depends on what was on its way.
    const closed = new Promise((resolve) => socket.on('error', resolve).once('close', resolve));
    socket.write('x');
    await closed;
    expect(socket.bytesRead).toBe(0);
    await forward.close();
  });

  it('says on the error channel why it could not connect', async () => {
    const socket = target.socket(`${target.home}/pods/server/portforward?ports=9`, ['v4.channel.k8s.io']);
    const errors: string[] = [];
    const heads: number[] = [];
    socket.on('message', (data: Buffer) => {
      if (heads.length < 2) heads.push(data.readUInt16LE(1));
      else if (data[0] === 1) errors.push(data.subarray(1).toString());
      if (errors.length > 0) socket.close();
    });
    await once(socket, 'close');
    expect(heads).toEqual([9, 9]);
    expect(errors.join('')).toMatch(/error forwarding port 9 to pod .*connection refused/);
  });
});
