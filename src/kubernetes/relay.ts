import { connect as dial, type Socket } from 'node:net';
import { PassThrough, Writable } from 'node:stream';
import { effect } from '../effects.ts';
import { asWindlassError, WindlassError } from '../errors.ts';
import { type Connected, type ListenOptions, lastWordMs, openListener } from './listener.ts';
import { assertPort } from './names.ts';
import type { Cluster, ExecTarget, Forward } from './port.ts';
import { sanitize } from './sanitize.ts';

/** Longer than any instance may live: what ends an exec is one of its two sides. */
const relayMs = 14 * 24 * 3_600_000;
const dialMs = 10_000;

/**
 * A local listener whose connections each run `command` in the container, its stdin and stdout being the connection: the
 * way into Pods whose runtime does not serve port-forward. Trouble is `forward_lost` with the command's own last words.
 */
export function execForward(
  cluster: Pick<Cluster, 'exec'>,
  target: ExecTarget,
  command: readonly string[],
  options: ListenOptions = {},
): Promise<Forward> {
  return openListener(async (local, connected) => {
    const closed = closing(local);
    const words = lastWords();
    connected.opened(undefined);
    try {
      const { exitCode } = await cluster.exec(target, command, {
        // The connection is paused and would lose what it delivers before the exec listens.
        stdin: local.pipe(new PassThrough()),
        stdout: local,
        stderr: words.sink,
        signal: AbortSignal.any([connected.signal, closed]),
        timeoutMs: relayMs,
        ...(options.instance === undefined ? {} : { instance: options.instance }),
      });
      if (exitCode !== 0) throw new WindlassError('forward_lost', `The relay in the Pod ended with ${exitCode}: ${words.text()}`);
      hangUp(local);
    } catch (error) {
      fail(local, connected, closed, error);
    }
  }, options);
}

/** A local listener whose connections go straight to an address: only where the operator said that Pods can be reached so. */
export function addressForward(address: string, port: number, options: ListenOptions = {}): Promise<Forward> {
  assertPort(port);
  return effect('agent.dial', options.instance, () =>
    openListener((local, connected) => joinAddress(local, connected, address, port), options),
  );
}

async function joinAddress(local: Socket, connected: Connected, host: string, port: number): Promise<void> {
  const closed = closing(local);
  connected.opened(undefined);
  const remote = dial({ host, port, allowHalfOpen: true, noDelay: true });
  const end = () => remote.destroy();
  remote.setTimeout(dialMs, () => remote.destroy(new Error(`no connection within ${dialMs} ms`)));
  remote.once('connect', () => {
    remote.setTimeout(0);
    local.pipe(remote);
    remote.pipe(local);
  });
  AbortSignal.any([connected.signal, closed]).addEventListener('abort', end, { once: true });
  remote.once('error', (error: NodeJS.ErrnoException) => {
    const why = new WindlassError('forward_lost', `${host}:${port} cannot be reached: ${error.code ?? error.message}.`);
    fail(local, connected, closed, why);
  });
}

/** Aborted once nobody is at the local side any more. */
function closing(local: Socket): AbortSignal {
  const controller = new AbortController();
  local.once('close', () => controller.abort());
  // Older servers cannot pass the end of our side on, so the Pod's would wait for ever.
  local.once('end', () => local.setTimeout(lastWordMs, () => local.destroy()));
  return controller.signal;
}

function hangUp(local: Socket): void {
  local.end();
  // Nothing more can be delivered: do not wait for a local side that never ends.
  setTimeout(() => local.destroy(), 2000).unref();
}

function fail(local: Socket, connected: Connected, closed: AbortSignal, error: unknown): void {
  if (!closed.aborted && !connected.signal.aborted) connected.opened(asWindlassError(error));
  // A clean end would look like the end of an answer.
  if (!local.destroyed) local.resetAndDestroy();
}

function lastWords(): { readonly sink: Writable; text(): string } {
  let text = '';
  const sink = new Writable({
    write(chunk: Buffer, _encoding, done) {
      text = (text + chunk.toString('utf8')).slice(-2000);
      done();
    },
  });
  return { sink, text: () => sanitize(text, 300) };
}
