import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http';
import type { AddressInfo, Socket } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { type WebSocket, WebSocketServer } from 'ws';
import { type ClusterConfig, clusterSchema } from '../../../src/config/schema.ts';

export interface Received {
  readonly method: string;
  readonly url: URL;
  readonly headers: IncomingMessage['headers'];
  readonly body: string;
}

export interface StubServer {
  readonly dir: string;
  /** http://127.0.0.1:<port> */
  readonly origin: string;
  readonly received: Received[];
  readonly sockets: Set<Socket>;
  /** TCP connections ever made. */
  connections(): number;
  config(overrides?: object): ClusterConfig;
  close(): Promise<void>;
}

export interface StubHandlers {
  http?(request: Received, response: ServerResponse): void;
  /** Return false to refuse the upgrade with `refusal`. */
  socket?(socket: WebSocket, url: URL): void;
  refuseUpgrade?: (url: URL) => { status: number; body: string } | 'hang' | undefined;
  /** Subprotocols that the server knows, best first. */
  protocols?: readonly string[];
}

/** A server that misbehaves on purpose: the faults of an API server that no real one shows on demand. */
export async function startStub(handlers: StubHandlers): Promise<StubServer> {
  const dir = mkdtempSync(join(tmpdir(), 'windlass-stub-'));
  const received: Received[] = [];
  const sockets = new Set<Socket>();
  let connections = 0;
  const server = createServer(async (request, response) => {
    let body = '';
    for await (const chunk of request) body += chunk;
    const seen = { method: request.method ?? '', url: new URL(request.url ?? '', 'http://stub'), headers: request.headers, body };
    received.push(seen);
    handlers.http?.(seen, response);
  });
  server.on('connection', (socket) => {
    connections += 1;
    sockets.add(socket);
    socket.once('close', () => sockets.delete(socket));
  });
  const protocols = handlers.protocols ?? ['v5.channel.k8s.io', 'v4.channel.k8s.io'];
  const websockets = new WebSocketServer({
    noServer: true,
    handleProtocols: (offered) => protocols.find((known) => offered.has(known)) ?? false,
  });
  server.on('upgrade', (request, socket, head) => {
    const url = new URL(request.url ?? '', 'http://stub');
    received.push({ method: 'UPGRADE', url, headers: request.headers, body: '' });
    const refusal = handlers.refuseUpgrade?.(url);
    if (refusal === 'hang') {
      socket.on('end', () => socket.end()).resume();
      return;
    }
    if (refusal) {
      const { status, body } = refusal;
      socket.end(
        `HTTP/1.1 ${status} No\r\nContent-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\n\r\n${body}`,
      );
      return;
    }
    websockets.handleUpgrade(request, socket, head, (websocket) => handlers.socket?.(websocket, url));
  });
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  const { port } = server.address() as AddressInfo;
  writeKubeconfig(dir, `http://127.0.0.1:${port}`, { token: 'secret-token' });
  return {
    dir,
    origin: `http://127.0.0.1:${port}`,
    received,
    sockets,
    connections: () => connections,
    config: (overrides = {}) =>
      clusterSchema.parse({ authMode: 'kubeconfig', kubeconfigPath: 'kubeconfig', namespace: 'sandboxes', ...overrides }),
    async close() {
      for (const socket of sockets) socket.destroy();
      websockets.close();
      await new Promise<void>((resolve) => server.close(() => resolve()));
      rmSync(dir, { recursive: true });
    },
  };
}

export function writeKubeconfig(dir: string, server: string, user: object): void {
  const config = {
    apiVersion: 'v1',
    kind: 'Config',
    'current-context': 'main',
    clusters: [{ name: 'c', cluster: { server } }],
    users: [{ name: 'u', user }],
    contexts: [{ name: 'main', context: { cluster: 'c', user: 'u' } }],
  };
  writeFileSync(join(dir, 'kubeconfig'), JSON.stringify(config));
}

export function answer(response: ServerResponse, status: number, body: unknown, headers: Record<string, string> = {}): void {
  response.writeHead(status, { 'content-type': 'application/json', ...headers });
  response.end(JSON.stringify(body));
}

export const failure = (code: number, reason: string, message: string) => ({
  kind: 'Status',
  status: 'Failure',
  code,
  reason,
  message,
});

export const quietLog = { debug: () => {}, info: () => {}, warn: () => {} };

export async function until(what: string, holds: () => boolean, ms = 5000): Promise<void> {
  const end = performance.now() + ms;
  while (!holds()) {
    if (performance.now() > end) throw new Error(`${what} did not happen within ${ms} ms`);
    await delay(10);
  }
}
