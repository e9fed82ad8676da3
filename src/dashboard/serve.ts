import Fastify, { type FastifyInstance, type FastifyReply, type FastifyRequest } from 'fastify';
import { type LoadedConfig, loadTokens } from '../config/load.ts';
import { WindlassError } from '../errors.ts';
import type { Inventory } from '../inventory/port.ts';
import { type Access, atLeast, createAccess, type Identity, seesEverybody } from './access.ts';
import { audit } from './audit.ts';
import { boardWriteAllowed, mountBoard } from './board.ts';
import { type HostRules, hostAllowed, isLoopback, refuseOpenBind, securityHeaders, writeAllowed } from './guard.ts';
import { mountPages } from './page-routes.ts';
import { sendProblem } from './problem.ts';
import { mountSignIn } from './sign-in.ts';

export interface ServerOptions {
  readonly caller: {
    readonly loaded: LoadedConfig;
    readonly inventory: Pick<Inventory, 'read' | 'tombstone' | 'list' | 'events' | 'now'>;
    readonly producer: { queues(): Promise<Readonly<Record<string, Parameters<typeof mountBoard>[1][number]>>> };
  };
  readonly host?: string;
  /** 0 = a free port. */
  readonly port?: number;
  /** A token for this run only, with every right; it may be given in the address. */
  readonly token?: string;
}

declare module 'fastify' {
  interface FastifyRequest {
    /** Set for every route but the open ones. */
    identity: Identity | undefined;
  }
}

/**
 * The dashboard: pages, Bull Board and health. Throws `config_invalid` for a bind beyond loopback without tokens, and
 * for a port that is taken.
 */
export async function startServer(options: ServerOptions): Promise<{ readonly url: string; close(): Promise<void> }> {
  const { caller } = options;
  const { http } = caller.loaded.config;
  const host = options.host ?? http.host;
  const tokens = await loadTokens(caller.loaded);
  refuseOpenBind(host, tokens.length + (options.token === undefined ? 0 : 1));
  const open = tokens.length === 0 && options.token === undefined;
  const access = createAccess({ tokens, open, ...(options.token !== undefined && { oneRunToken: options.token }) });
  const base = http.basePath.replace(/\/+$/, '');
  const app = Fastify({
    logger: false,
    trustProxy: http.trustProxy,
    bodyLimit: http.limits.bodyBytes,
    routerOptions: { maxParamLength: 8192 },
    forceCloseConnections: true,
    frameworkErrors: (error, request, reply) => void sendProblem(request, reply, base, error),
  });
  protect(app, { access, base, rules: { host, publicUrl: http.publicUrl, allowedHosts: http.allowedHosts } });
  app.get(`${base}/healthz`, async () => ({ schema: 'windlass/v1', status: 'ok' }));
  mountSignIn(app, { access, base, secure: http.publicUrl?.startsWith('https:') === true });
  mountPages(app, { inventory: caller.inventory, base });
  const canOperate = (headers: Record<string, unknown>) =>
    mayOperate(access.identify({ authorization: text(headers.authorization), cookie: text(headers.cookie) }));
  const queues = await caller.producer.queues();
  await app.register(async (scope) =>
    mountBoard(scope, Object.values(queues), `${base}/queues`, (headers) => !canOperate(headers)),
  );
  const url = await listen(app, host, options.port ?? http.port);
  return { url: `${url}${base}/`, close: () => app.close() };
}

const text = (value: unknown): string | undefined => (typeof value === 'string' ? value : undefined);
const mayOperate = (identity: Identity | undefined): boolean => identity !== undefined && atLeast(identity, 'operator');

interface Protection {
  readonly access: Access;
  readonly base: string;
  readonly rules: HostRules;
}

/** Reached without signing in: health for probes (which send any Host), the sign-in itself, our own styles. */
const openPath = /^\/(healthz|login|assets\/[a-z.]+)$/;

function protect(app: FastifyInstance, { access, base, rules }: Protection): void {
  app.decorateRequest('identity', undefined);
  app.setErrorHandler((error, request, reply) => sendProblem(request, reply, base, error));
  app.setNotFoundHandler((request, reply) => {
    const missing = Object.assign(new Error('There is no such page.'), { statusCode: 404 });
    return sendProblem(request, reply, base, missing);
  });
  app.addHook('onRequest', async (request, reply) => {
    try {
      admit(request, reply, { access, base, rules });
    } catch (error) {
      // Answered here and not by an error handler: Bull Board brings its own, which would make a 500 of it.
      return sendProblem(request, reply, base, error);
    }
  });
  app.addHook('onResponse', async (request, reply) => {
    if (request.method === 'GET' || request.method === 'HEAD' || reply.statusCode >= 400) return;
    audit(request, request.identity, `${request.method} ${request.routeOptions.url ?? ''}`, 'done');
  });
}

/** Everything that is decided before a route runs; throws the refusal. */
function admit(request: FastifyRequest, reply: FastifyReply, { access, base, rules }: Protection): void {
  const path = pathOf(request, base);
  const board = path === '/queues' || path.startsWith('/queues/');
  securityHeaders(reply, board);
  if (path === '/healthz') return;
  if (!hostAllowed(request.headers.host, rules)) {
    throw refused(
      request,
      undefined,
      'host',
      'forbidden',
      `The host "${request.headers.host ?? ''}" is not served here: http.allowedHosts does not name it.`,
    );
  }
  const reading = request.method === 'GET' || request.method === 'HEAD';
  if (!reading && !writeAllowed(request.headers, rules.publicUrl)) {
    throw refused(request, undefined, 'origin', 'forbidden', 'This request did not come from a page of this dashboard.');
  }
  if (openPath.test(path) || takesToken(request, access, path)) return;
  request.identity = identify(request, access);
  if (board) authorizeBoard(request, path, reading);
}

function pathOf(request: FastifyRequest, base: string): string {
  const path = request.url.split('?')[0] ?? '';
  return path.startsWith(`${base}/`) ? path.slice(base.length) : path;
}

function identify(request: FastifyRequest, access: Access): Identity {
  const { authorization, cookie } = request.headers;
  try {
    const identity = access.identify({ authorization, cookie });
    if (identity) return identity;
  } catch (error) {
    audit(request, undefined, 'authenticate', 'refused', 'unauthorized');
    throw error;
  }
  throw refused(request, undefined, 'authenticate', 'unauthorized', 'Sign in, or send a bearer token.');
}

const takesToken = (request: FastifyRequest, access: Access, path: string): boolean =>
  path === '/' && access.isShortLived(text((request.query as Record<string, unknown> | undefined)?.token) ?? '');

/** Queues mix every owner's jobs, so only who sees everybody may look, and only an operator may press a button. */
function authorizeBoard(request: FastifyRequest, path: string, reading: boolean): void {
  const who = request.identity!;
  if (!seesEverybody(who))
    throw refused(request, who, 'queues', 'forbidden', 'Queues are shown only to tokens of every owner (owners: ["*"]).');
  if (reading) return;
  if (!mayOperate(who)) throw refused(request, who, 'queues', 'forbidden', 'Only an operator may change queues.');
  if (!boardWriteAllowed(path))
    throw refused(
      request,
      who,
      'queues',
      'forbidden',
      'Jobs are added, edited and obliterated by no one here: use the windlass command.',
    );
}

function refused(
  request: FastifyRequest,
  who: Identity | undefined,
  action: string,
  code: 'forbidden' | 'unauthorized',
  message: string,
): WindlassError {
  audit(request, who, action, 'refused', code);
  return new WindlassError(code, message);
}

async function listen(app: FastifyInstance, host: string, port: number): Promise<string> {
  try {
    const address = await app.listen({ host, port });
    // A wildcard address cannot be opened in a browser.
    return isLoopback(host) ? address : address.replace('0.0.0.0', '127.0.0.1').replace('[::]', '127.0.0.1');
  } catch (error) {
    await app.close();
    const code = (error as NodeJS.ErrnoException).code;
    if (code !== 'EADDRINUSE' && code !== 'EADDRNOTAVAIL' && code !== 'EACCES') throw error;
    const message =
      code === 'EADDRINUSE'
        ? `the port ${port} is taken on ${host}: choose another (0 = a free one)`
        : `cannot listen on ${host}:${port} (${code})`;
    throw new WindlassError('config_invalid', `The dashboard cannot start: ${message}.`, {
      issues: [{ path: 'http.port', message }],
      hint: 'Set http.port, or WINDLASS__HTTP__PORT for one run; `windlass serve` also takes --port.',
      cause: error,
    });
  }
}
