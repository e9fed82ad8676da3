import { once } from 'node:events';
import type { AddressInfo } from 'node:net';
import { connect, createServer, type Socket } from 'node:net';
import { afterEach, describe, expect, it } from 'vitest';
import { WindlassError } from '../../../src/errors.ts';
import type { Cluster, ExecOptions, Forward } from '../../../src/kubernetes/port.ts';
import { addressForward, execForward } from '../../../src/kubernetes/relay.ts';
import { until } from './stub-server.ts';

type Exec = Cluster['exec'];
let forward: Forward;
afterEach(() => forward.close());

/** Runs `command` on the streams of each exec. */
async function relayTo(command: (options: ExecOptions & { stdin: Socket; stdout: Socket }) => Promise<number>): Promise<Exec[]> {
  const execs: Exec[] = [];
  const exec: Exec = async (_target, _command, options = {}) => {
    execs.push(exec);
    return { exitCode: await command(options as never), stdout: '', stderr: '' };
  };
  forward = await execForward({ exec }, { pod: 'windlass-x', container: 'agent' }, ['relay']);
  return execs;
}

function client(): { socket: Socket; text(): string; ended: Promise<'end' | string> } {
  const socket = connect(forward.port, '127.0.0.1');
  let text = '';
  socket.on('data', (chunk) => {
    text += chunk;
  });
  const ended = new Promise<string>((resolve) => {
    socket.once('end', () => resolve('end'));
    socket.once('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? ''));
  });
  return { socket, text: () => text, ended };
}

describe('a relay by exec', () => {
  it('loses nothing that was said before the exec listened, and hands the end on', async () => {
    await relayTo(async ({ stdin, stdout }) => {
      for await (const chunk of stdin) stdout.write(chunk);
      return 0;
    });
    const { socket, text, ended } = client();
    socket.end('x'.repeat(500_000));
    expect(await ended).toBe('end');
    expect(text()).toBe('x'.repeat(500_000));
    expect(forward.trouble()).toBeUndefined();
  });

  it('resets the connection when the relay fails, says why, and opens a new one for the next', async () => {
    let fails = true;
    const execs = await relayTo(async ({ stderr, stdout }) => {
      if (fails) stderr?.write('windlass: the agent does not serve: ECONNREFUSED\u0007\n');
      else stdout.write('hello');
      return fails ? 70 : 0;
    });
    expect(await client().ended).toBe('ECONNRESET');
    expect(forward.trouble()).toMatchObject({
      code: 'forward_lost',
      message: expect.stringContaining('does not serve: ECONNREFUSED'),
    });
    expect(forward.trouble()?.message).not.toContain('\u0007');
    fails = false;
    const second = client();
    expect(await second.ended).toBe('end');
    expect(second.text()).toBe('hello');
    expect(execs).toHaveLength(2);
  });

  it('keeps the code of a refusal', async () => {
    await relayTo(() => Promise.reject(new WindlassError('permission_denied', 'no exec')));
    expect(await client().ended).toBe('ECONNRESET');
    expect(forward.trouble()).toMatchObject({ code: 'permission_denied' });
  });

  it('ends the exec when the local side is gone, or the forward is closed', async () => {
    const signals: AbortSignal[] = [];
    await relayTo(({ signal }) => {
      signals.push(signal as AbortSignal);
      return new Promise((_resolve, reject) => signal?.addEventListener('abort', () => reject(signal.reason)));
    });
    const first = client();
    await until('the first exec', () => signals.length === 1);
    first.socket.resetAndDestroy();
    await until('its end', () => signals[0]?.aborted === true);
    const second = client();
    await until('the second exec', () => signals.length === 2);
    await forward.close();
    expect(signals[1]?.aborted).toBe(true);
    await second.ended;
    expect(forward.trouble()).toBeUndefined();
  });
});

describe('a way straight to an address', () => {
  it('carries bytes both ways', async () => {
    const server = createServer((socket) => socket.pipe(socket)).listen(0, '127.0.0.1');
    await once(server, 'listening');
    forward = await addressForward('127.0.0.1', (server.address() as AddressInfo).port);
    const { socket, text, ended } = client();
    socket.end('there and back');
    expect(await ended).toBe('end');
    expect(text()).toBe('there and back');
    server.close();
  });

  it('says that the address cannot be reached', async () => {
    const server = createServer().listen(0, '127.0.0.1');
    await once(server, 'listening');
    const { port } = server.address() as AddressInfo;
    server.close();
    await once(server, 'close');
    forward = await addressForward('127.0.0.1', port);
    expect(await client().ended).toBe('ECONNRESET');
    expect(forward.trouble()).toMatchObject({ code: 'forward_lost', message: expect.stringContaining('ECONNREFUSED') });
  });
});
