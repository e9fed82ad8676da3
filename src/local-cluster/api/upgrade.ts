import { type IncomingMessage, STATUS_CODES } from 'node:http';
import type { Duplex } from 'node:stream';
import { WebSocketServer } from 'ws';
import type { ApiServerOptions } from './context.ts';
import type { FaultPlan } from './fault-plan.ts';
import { admit, beginExchange, record, suffer, toApiError, withFaults } from './gate.ts';
import type { Route } from './route.ts';
import { ApiError, noSuchPath } from './status.ts';
import { isStream, prepareStream } from './streams.ts';

const maxPayload = 8 * 1024 * 1024;
const protocols = ['v5.channel.k8s.io', 'v4.channel.k8s.io'];

/** The newest protocol both sides know. */
function chooseProtocol(request: IncomingMessage, route: Route, plan: FaultPlan): string {
  const offered = (request.headers['sec-websocket-protocol'] ?? '').split(',').map((one) => one.trim());
  const v4Only = route.subresource === 'portforward' || plan.flags.has('exec_v4_only');
  const chosen = (v4Only ? protocols.slice(1) : protocols).find((one) => offered.includes(one));
  if (chosen) return chosen;
  throw new ApiError(
    403,
    'Forbidden',
    'no WebSocket protocol in common: offer v5.channel.k8s.io or v4.channel.k8s.io (port-forward: v4.channel.k8s.io)',
  );
}

/** Answers an upgrade request with a plain HTTP error. */
function refuse(socket: Duplex, code: number, body: string): void {
  const head = [
    `HTTP/1.1 ${code} ${STATUS_CODES[code] ?? ''}`,
    'Connection: close',
    `Date: ${new Date().toUTCString()}`,
    'Content-Type: application/json',
    `Content-Length: ${Buffer.byteLength(body)}`,
  ];
  socket.end(`${head.join('\r\n')}\r\n\r\n${body}`);
}

/** Serves the WebSockets of exec, attach and port-forward; `close` ends the open ones. */
export function createUpgradeHandler({ context, faults, audit, token }: ApiServerOptions) {
  const sockets = new WebSocketServer({
    noServer: true,
    maxPayload,
    perMessageDeflate: false,
    handleProtocols: (offered) => protocols.find((one) => offered.has(one)) ?? false,
  });

  const handle = async (request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> => {
    const exchange = beginExchange(request);
    socket.on('error', () => socket.destroy());
    try {
      const routed = admit(exchange, token);
      if (!routed || !isStream(routed.route)) throw noSuchPath();
      const { route, plan, query } = withFaults(routed, faults);
      if (!(await suffer(plan, socket))) return record(audit, exchange, 0);
      const serve = prepareStream({ context, route, query, plan }, request);
      // Offering only the chosen one is how the server is told which to take.
      request.headers['sec-websocket-protocol'] = chooseProtocol(request, route, plan);
      sockets.handleUpgrade(request, socket, head, (accepted) => {
        accepted.on('error', () => accepted.terminate());
        accepted.once('close', () => record(audit, exchange, 101));
        void serve(accepted);
      });
    } catch (error) {
      const failure = toApiError(error, context.log);
      refuse(socket, failure.code, JSON.stringify(failure.status));
      record(audit, exchange, failure.code);
    }
  };

  return {
    handle,
    close(): void {
      for (const client of sockets.clients) client.terminate();
      sockets.close();
    },
  };
}
