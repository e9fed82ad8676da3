import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { ApiServerOptions } from './context.ts';
import { createHttpHandler } from './http.ts';
import { createOpenWatches } from './open-watches.ts';
import { createUpgradeHandler } from './upgrade.ts';

export interface ApiServer {
  readonly port: number;
  close(): Promise<void>;
}

function listen(server: Server, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    const fail = (error: NodeJS.ErrnoException): void => {
      const why = error.code === 'EADDRINUSE' ? 'the port is in use' : error.message;
      reject(new Error(`the API server cannot listen on 127.0.0.1:${port}: ${why}`, { cause: error }));
    };
    server.once('error', fail);
    server.listen(port, '127.0.0.1', () => {
      server.off('error', fail);
      resolve();
    });
  });
}

/** The HTTPS API server on loopback. `close` ends every connection, open watches and streams included. */
export async function startApiServer(options: ApiServerOptions): Promise<ApiServer> {
  const watches = createOpenWatches(options.faults);
  const http = createHttpHandler(options, watches);
  const upgrades = createUpgradeHandler(options);
  // Clients pool connections: one that is closed under them while idle costs them a failed request.
  const server = createServer({ cert: options.certificate, key: options.privateKey, keepAliveTimeout: 180_000 });
  server.on('request', (request, response) => void http(request, response));
  server.on('upgrade', (request, socket, head) => void upgrades.handle(request, socket, head));
  server.requestTimeout = 0;
  await listen(server, options.port);
  return {
    port: (server.address() as AddressInfo).port,
    async close() {
      watches.close();
      upgrades.close();
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}
