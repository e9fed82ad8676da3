import { once } from 'node:events';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { WebSocket } from 'ws';
import { openTarget, podOf } from './target.ts';

const target = await openTarget();
const pod = { pod: 'shell', container: 'main' };
const path = (command: string[], flags: string) =>
  `${target.home}/pods/shell/exec?container=main&${flags}&${command.map((part) => `command=${encodeURIComponent(part)}`).join('&')}`;

interface Ended {
  readonly out: string;
  readonly status: { status: string; reason?: string; details?: { causes: { reason: string; message: string }[] } };
  readonly code: number;
}

/** Collects a socket to its end; stdout and stderr together. */
async function collect(socket: WebSocket): Promise<Ended> {
  let [out, status] = ['', ''];
  socket.on('message', (data: Buffer) => {
    if (data[0] === 3) status += data.subarray(1).toString();
    else out += data.subarray(1).toString();
  });
  const [code] = await once(socket, 'close');
  return { out, status: JSON.parse(status), code: code as number };
}

beforeAll(async () => {
  await target.create('pods', podOf(target, 'shell', 'exec sleep 1000'));
  await target.until('pods/shell', ({ status }) => status.phase === 'Running');
});
afterAll(() => target.close());

describe('exec', () => {
  it('gives both outputs and the exit code', async () => {
    const result = await target.cluster.exec(pod, ['sh', '-c', 'echo out; echo err >&2; exit 7']);
    expect(result).toEqual({ exitCode: 7, stdout: 'out\n', stderr: 'err\n' });
  });

  it('says 127 for a program that is not there', async () => {
    const { exitCode } = await target.cluster.exec(pod, ['no-such-program']);
    expect(exitCode).toBe(127);
  });

  it('says 137 for a command that was killed', async () => {
    expect((await target.cluster.exec(pod, ['sh', '-c', 'kill -9 $$'])).exitCode).toBe(137);
  });

  it('hands input over to its end, all bytes', async () => {
    const stdin = Buffer.from(Array.from({ length: 300_000 }, (_, index) => index % 256));
    const { stdout, exitCode } = await target.cluster.exec(pod, ['sh', '-c', 'wc -c'], { stdin });
    expect([Number(stdout), exitCode]).toEqual([300_000, 0]);
  });

  it('in v5 ends the input on a close frame, and reports success in a status', async () => {
    const socket = target.socket(path(['cat'], 'stdin=true&stdout=true&stderr=true'), ['v5.channel.k8s.io']);
    const ended = collect(socket);
    await once(socket, 'open');
    expect(socket.protocol).toBe('v5.channel.k8s.io');
    socket.send(Buffer.from('\0through stdin'));
    socket.send(Buffer.from([255, 0]));
    const { out, status, code } = await ended;
    expect([out, status.status, code]).toEqual(['through stdin', 'Success', 1000]);
  });

  it('in v4 reports the exit code as a cause', async () => {
    const socket = target.socket(path(['sh', '-c', 'exit 3'], 'stdout=true'), ['v4.channel.k8s.io']);
    const { status } = await collect(socket);
    expect(status).toMatchObject({ status: 'Failure', reason: 'NonZeroExitCode' });
    expect(status.details?.causes).toEqual([{ reason: 'ExitCode', message: '3' }]);
  });

  it('chooses the newest protocol that both speak', async () => {
    const offered = ['v4.channel.k8s.io', 'v5.channel.k8s.io'];
    const socket = target.socket(path(['true'], 'stdout=true'), offered);
    await once(socket, 'open');
    expect(socket.protocol).toBe('v5.channel.k8s.io');
    await collect(socket);
  });

  it('is refused for a Pod or container that is not there', async () => {
    await expect(target.cluster.exec({ pod: 'absent', container: 'main' }, ['true'])).rejects.toMatchObject({
      code: 'pod_disrupted',
    });
    const missing = await target.call('POST', `${target.home}/pods/absent/exec?command=true&stdout=true`);
    expect([missing.code, missing.body.message]).toEqual([404, 'pods "absent" not found']);
    const other = await target.call('POST', `${target.home}/pods/shell/exec?command=true&stdout=true&container=other`);
    expect([other.code, other.body.message]).toEqual([400, 'container other is not valid for pod shell']);
  });
});
