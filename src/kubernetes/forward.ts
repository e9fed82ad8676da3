import type { Socket } from 'node:net';
import type { WebSocket } from 'ws';
import { effect } from '../effects.ts';
import { asWindlassError } from '../errors.ts';
import type { Connection } from './connection.ts';
import { type Connected, lastWordMs, openListener } from './listener.ts';
import { assertObjectName, assertPort } from './names.ts';
import type { CallOptions, Forward } from './port.ts';
import { sanitize } from './sanitize.ts';
import { frameOf, openSocket, sendFrame } from './websocket.ts';

const channel = { data: 0, error: 1 } as const;
/** Each channel starts with the port it belongs to, two bytes. */
const portHeader = 2;
const highWater = 1 << 20;

export interface ForwardLog {
  debug(fields: object, message: string): void;
}

interface Target extends Connected {
  readonly connection: Connection;
  readonly namespace: string;
  readonly pod: string;
  readonly podPort: number;
  readonly log: ForwardLog;
}

/** Listens on 127.0.0.1; each connection gets a stream of its own into the Pod, opened when it comes. */
export function createForward(connection: Connection, namespace: string, log: ForwardLog) {
  return (pod: string, podPort: number, options: CallOptions & { localPort?: number } = {}): Promise<Forward> => {
    assertObjectName(pod);
    assertPort(podPort);
    const broke = (error: Error) => log.debug({ pod, podPort, error: error.message }, 'the local side of a forward broke');
    return effect('kube.forward', options.instance, () =>
      openListener((local, connected) => join({ ...connected, connection, namespace, pod, podPort, log }, local), {
        ...options,
        broke,
      }),
    );
  };
}

/** One local connection to one stream. Never rejects: whatever breaks shows as a reset of the local connection. */
async function join(target: Target, local: Socket): Promise<void> {
  const opening = new AbortController();
  const signal = AbortSignal.any([target.signal, opening.signal]);
  const giveUp = () => opening.abort();
  local.once('close', giveUp);
  try {
    const remote = await openSocket(target.connection, {
      verb: 'create',
      resource: 'pods/portforward',
      name: target.pod,
      path: `/api/v1/namespaces/${target.namespace}/pods/${target.pod}/portforward`,
      query: new URLSearchParams({ ports: String(target.podPort) }),
      protocols: ['v4.channel.k8s.io'],
      signal,
      attach: (socket) => receive(target, socket, local),
    });
    target.opened(undefined);
    local.off('close', giveUp);
    if (local.destroyed) remote.terminate();
    else transmit(remote, local);
  } catch (error) {
    target.log.debug({ pod: target.pod, port: target.podPort, error: String(error) }, 'a forward could not be opened');
    if (!signal.aborted) target.opened(asWindlassError(error));
    local.resetAndDestroy();
  }
}

/** Pod → local. Attached before the handshake: the error frame may come in the same chunk as the port headers. */
function receive(target: Target, remote: WebSocket, local: Socket): void {
  const headerLeft = { [channel.data]: portHeader, [channel.error]: portHeader } as Record<number, number>;
  remote.on('message', (data) => {
    const frame = frameOf(data);
    const from = frame[0] ?? -1;
    const skip = Math.min(headerLeft[from] ?? 0, frame.length - 1);
    headerLeft[from] = (headerLeft[from] ?? 0) - skip;
    const payload = frame.subarray(1 + skip);
    if (payload.length === 0 || local.destroyed) return;
    if (from === channel.error) {
      target.log.debug(
        { pod: target.pod, port: target.podPort, error: sanitize(payload.toString('utf8'), 500) },
        'the Pod refused a forward',
      );
      local.resetAndDestroy();
      remote.terminate();
    } else if (from === channel.data && !local.write(payload)) {
      remote.pause();
      local.once('drain', () => remote.resume());
    }
  });
  remote.once('close', (code) => {
    // A clean close is the end of what the Pod had to say; anything else must not look like one.
    if (code === 1000 || code === 1005) local.end();
    else if (!local.destroyed) local.resetAndDestroy();
    // Nothing can be delivered any more: do not wait for a local side that never ends.
    setTimeout(() => local.destroy(), 2000).unref();
  });
}

/** Local → Pod, with back-pressure by what the websocket has not sent yet. */
function transmit(remote: WebSocket, local: Socket): void {
  let asked = false;
  local.on('data', (chunk: Buffer) => {
    asked = true;
    if (remote.bufferedAmount > highWater) local.pause();
    sendFrame(remote, Buffer.concat([Buffer.from([channel.data]), chunk])).then(
      () => {
        if (local.isPaused() && remote.bufferedAmount <= highWater) local.resume();
      },
      // The websocket is closing, which ends the local side as well.
      () => local.destroy(),
    );
  });
  // No half-close on the wire: closing now would lose the answer (libraries: verified).
  local.once('end', () => {
    if (asked) local.setTimeout(lastWordMs, () => local.destroy());
    else local.destroy();
  });
  local.once('close', () => {
    if (remote.isPaused) remote.resume();
    remote.close();
    setTimeout(() => remote.terminate(), 2000).unref();
  });
  local.resume();
}
