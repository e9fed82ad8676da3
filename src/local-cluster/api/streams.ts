import type { IncomingMessage } from 'node:http';
import { STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { type WebSocket, WebSocketServer } from 'ws';
import type { ApiContext } from './context.ts';
import { execFlags, serveExec } from './exec.ts';
import type { FaultPlan } from './fault-plan.ts';
import { forwardPorts, serveForward } from './forward.ts';
import { checkHost, findContainer, findPod } from './pod-target.ts';
import type { Route } from './route.ts';
import { type ApiError, badRequest } from './status.ts';

const maxPayload = 8 * 1024 * 1024;

export interface StreamCall {
  readonly context: ApiContext;
  readonly route: Route;
  readonly query: URLSearchParams;
  readonly plan: FaultPlan;
}

export type Serve = (socket: WebSocket) => Promise<void>;

function prepareExec({ context, route, query, plan }: StreamCall): Serve {
  const { pod, ref } = findContainer(context, route.namespace, route.name, query);
  checkHost(pod);
  const flags = execFlags(query);
  const { stdin, tty } = flags;
  const start = () =>
    route.subresource === 'exec'
      ? context.node.exec(ref, query.getAll('command'), { stdin, tty })
      : context.node.attach(ref, { stdin });
  const faults = {
    ...(plan.execDropAfter === undefined ? {} : { dropAfterBytes: plan.execDropAfter }),
    noStatus: plan.flags.has('exec_no_status'),
  };
  return (socket) => serveExec(socket, { ...flags, start }, faults);
}

function prepareForward({ context, route, query, plan }: StreamCall): Serve {
  const pod = findPod(context, route.namespace, route.name);
  checkHost(pod);
  const ports = forwardPorts(query);
  const faults = { refuse: plan.flags.has('forward_refuse'), reset: plan.flags.has('forward_reset') };
  return (socket) => serveForward(socket, context.node, pod.metadata.uid, ports, faults);
}

/** Everything that can be refused before the upgrade, as HTTP answers. */
export function prepareStream(call: StreamCall, request: IncomingMessage): Serve {
  const serve = call.route.subresource === 'portforward' ? prepareForward(call) : prepareExec(call);
  if (request.headers.upgrade?.toLowerCase() !== 'websocket') {
    throw request.headers.upgrade ? spdyRefused() : badRequest('Upgrade request required');
  }
  return serve;
}

const spdyRefused = (): ApiError =>
  badRequest(
    'the embedded cluster speaks WebSocket only, no SPDY: use kubectl 1.31 or newer for exec, attach and cp, and a WebSocket client (v4.channel.k8s.io) for port-forward',
  );

/** The newest protocol both sides know; undefined when there is none. */
export function chooseProtocol(request: IncomingMessage, route: Route, plan: FaultPlan): string | undefined {
  const offered = (request.headers['sec-websocket-protocol'] ?? '').split(',').map((one) => one.trim());
  const v4Only = route.subresource === 'portforward' || plan.flags.has('exec_v4_only');
  return (v4Only ? ['v4.channel.k8s.io'] : ['v5.channel.k8s.io', 'v4.channel.k8s.io']).find((one) => offered.includes(one));
}

/** Accepts WebSockets of one server and knows the open ones. */
export function createUpgrader() {
  const sockets = new WebSocketServer({
    noServer: true,
    maxPayload,
    perMessageDeflate: false,
    handleProtocols: (offered) => ['v5.channel.k8s.io', 'v4.channel.k8s.io'].find((one) => offered.has(one)) ?? false,
  });
  return {
    accept(request: IncomingMessage, socket: Duplex, head: Buffer, protocol: string, serve: Serve, onEnd: () => void): void {
      // The server picks among what is offered: offering one is how a fault picks the older protocol.
      request.headers['sec-websocket-protocol'] = protocol;
      sockets.handleUpgrade(request, socket, head, (accepted) => {
        accepted.on('error', () => accepted.terminate());
        accepted.once('close', onEnd);
        void serve(accepted);
      });
    },
    close(): void {
      for (const client of sockets.clients) client.terminate();
      sockets.close();
    },
  };
}

/** Answers an upgrade request with a plain HTTP error, then closes it. */
export function refuseUpgrade(socket: Duplex, code: number, body: string): void {
  const head = [
    `HTTP/1.1 ${code} ${STATUS_CODES[code] ?? ''}`,
    'Connection: close',
    `Date: ${new Date().toUTCString()}`,
    'Content-Type: application/json',
    `Content-Length: ${Buffer.byteLength(body)}`,
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
}
