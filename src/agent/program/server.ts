import { createReadStream, existsSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse, STATUS_CODES } from 'node:http';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import {
  agentPort,
  execUpgrade,
  type HandshakeRequest,
  type HandshakeResponse,
  type Health,
  type InstanceInfo,
  protocolVersion,
} from '../protocol.ts';
import type { Auth } from './auth.ts';
import { createRequest } from './checks.ts';
import { ExecSession } from './exec.ts';
import { asRefusal, Refusal, readJson, sendJson, sendRefusal } from './http.ts';
import type { Instance, Instances } from './instances.ts';
import { prepareLogPath } from './prepare.ts';
import type { Processes } from './processes.ts';
import type { Settings } from './settings.ts';

export interface ServerContext {
  readonly settings: Settings;
  readonly auth: Auth;
  readonly instances: Instances;
  readonly processes: Processes;
}

const instancesPath = '/api/v1/instances';

export function createAgentServer(context: ServerContext): Server {
  const server = createServer((request, response) => {
    route(context, request, response).catch((thrown) => sendRefusal(response, thrown));
  });
  // A forward closes together with an idle connection; the worker keeps both for minutes.
  server.keepAliveTimeout = 0;
  server.on('upgrade', (request, socket: Duplex, head: Buffer) => upgrade(context, request, socket, head));
  return server;
}

async function route(context: ServerContext, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { pathname } = new URL(request.url ?? '/', 'http://agent');
  if (request.method === 'GET' && pathname === '/health') return sendJson(response, 200, health());
  if (request.method === 'POST' && pathname === '/auth/handshake') return handshake(context, request, response);
  authorize(context, request);
  if (pathname === instancesPath) {
    if (request.method === 'POST') return create(context, request, response);
    if (request.method === 'GET') return sendJson(response, 200, list(context, request));
  }
  const [id, action] = instancePath(pathname);
  const instance = findInstance(context, request, id);
  if (request.method === 'GET' && action === undefined) return sendJson(response, 200, infoOf(instance, request));
  if (request.method === 'DELETE' && action === undefined) {
    await context.instances.remove(id);
    return sendJson(response, 200, { message: 'removed' });
  }
  if (request.method === 'GET' && action === 'prepare-log') return prepareLog(context, response);
  throw new Refusal(404, 'no such route');
}

function health(): Health {
  return { status: 'ok', timestamp: new Date().toISOString(), protocol: protocolVersion };
}

async function handshake({ auth }: ServerContext, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const { nonce, clientKey } = ((await readJson(request)) ?? {}) as Partial<HandshakeRequest>;
  if (typeof nonce !== 'string' || typeof clientKey !== 'string' || nonce === '' || clientKey === '') {
    throw new Refusal(400, 'nonce and clientKey are needed');
  }
  const result = auth.handshake(nonce, clientKey);
  if ('refused' in result) throw new Refusal(result.refused, result.why);
  sendJson(response, 200, result satisfies HandshakeResponse);
}

function authorize({ auth }: ServerContext, request: IncomingMessage): void {
  if (!auth.accepts(request.headers.authorization)) throw new Refusal(401, 'the token is missing or wrong');
}

async function create({ instances }: ServerContext, request: IncomingMessage, response: ServerResponse): Promise<void> {
  const wanted = createRequest(await readJson(request));
  if (typeof wanted === 'string') throw new Refusal(400, wanted);
  guardId(request, wanted.id);
  const { status, instance, differs } = await instances.create(wanted);
  if (status === 409) throw new Refusal(409, `the instance exists with other content: ${differs.join(', ')}`);
  sendJson(response, status, infoOf(instance, request));
}

function list({ instances }: ServerContext, request: IncomingMessage): InstanceInfo[] {
  const all = instances.all();
  if (all.length > 0 && !all.some((instance) => isMeant(request, instance.request.id))) throw otherInstance();
  return all.map((instance) => infoOf(instance, request));
}

function prepareLog({ settings }: ServerContext, response: ServerResponse): void {
  const path = prepareLogPath(settings);
  response.writeHead(200, { 'content-type': 'text/plain; charset=utf-8' });
  if (!existsSync(path)) response.end();
  else
    createReadStream(path)
      .on('error', (error) => response.destroy(error))
      .pipe(response);
}

function upgrade(context: ServerContext, request: IncomingMessage, socket: Duplex, head: Buffer): void {
  // Until a session listens, a reset must not end the agent.
  const onError = () => socket.destroy();
  socket.on('error', onError);
  try {
    authorize(context, request);
    const [id, action] = instancePath(new URL(request.url ?? '/', 'http://agent').pathname);
    const instance = findInstance(context, request, id);
    if (action !== 'exec' || request.headers.upgrade?.toLowerCase() !== execUpgrade) throw new Refusal(404, 'no such route');
    socket.write(`HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: ${execUpgrade}\r\n\r\n`);
    if (head.length > 0) socket.unshift(head);
    new ExecSession(context, instance, socket);
    socket.off('error', onError);
  } catch (thrown) {
    const { status, message } = asRefusal(thrown);
    const body = JSON.stringify({ error: message });
    const headers = `Content-Type: application/json\r\nContent-Length: ${Buffer.byteLength(body)}\r\nConnection: close`;
    socket.end(`HTTP/1.1 ${status} ${STATUS_CODES[status]}\r\n${headers}\r\n\r\n${body}`);
  }
}

/** `/api/v1/instances/{id}[/{action}]` */
function instancePath(pathname: string): [id: string, action: string | undefined] {
  const match = /^\/api\/v1\/instances\/([^/]+)(?:\/([^/]+))?$/.exec(pathname);
  if (!match) throw new Refusal(404, 'no such route');
  return [decode(match[1]!), match[2]];
}

function decode(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    throw new Refusal(400, 'the id is not URL-encoded');
  }
}

function findInstance({ instances }: ServerContext, request: IncomingMessage, id: string): Instance {
  guardId(request, id);
  const instance = instances.get(id);
  if (!instance) throw new Refusal(404, 'no such instance');
  return instance;
}

/** A forward may end at a recycled port: a client that means another instance must not reach this one. */
function guardId(request: IncomingMessage, id: string): void {
  if (!isMeant(request, id)) throw otherInstance();
}

function isMeant(request: IncomingMessage, id: string): boolean {
  const meant = request.headers['x-instance-id'];
  if (typeof meant !== 'string') return true;
  return meant.trim() === id || meant.trim() === encodeURIComponent(id);
}

function otherInstance(): Refusal {
  return new Refusal(404, 'another instance lives here');
}

function infoOf(instance: Instance, request: IncomingMessage): InstanceInfo {
  return {
    id: instance.request.id,
    port: (request.socket.localPort as AddressInfo['port'] | undefined) ?? agentPort,
    status: 'ready',
    workspace_path: instance.request.workspace_path,
    created_at: instance.createdAt,
    ...(instance.command && { command: instance.command }),
    last_activity_at: instance.lastActivityAt,
  };
}
