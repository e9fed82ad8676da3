import { timingSafeEqual } from 'node:crypto';
import type { IncomingMessage, ServerResponse } from 'node:http';
import { createServer, type Server } from 'node:https';
import type { AddressInfo } from 'node:net';
import type { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { AuditLog } from '../audit.ts';
import type { Faults } from '../faults.ts';
import { readBody } from './body.ts';
import type { ApiContext } from './context.ts';
import { discover } from './discovery.ts';
import { type FaultPlan, planFaults } from './fault-plan.ts';
import { type Answer, handlers } from './handlers.ts';
import { serveLogs } from './logs.ts';
import { type Form, negotiate } from './negotiate.ts';
import { renderList, renderObject, serialize } from './render.ts';
import { parseRoute, type Route } from './route.ts';
import { ApiError, internalError, noSuchPath } from './status.ts';
import { chooseProtocol, createUpgrader, prepareStream, refuseUpgrade } from './streams.ts';
import { serveWatch, type WatchControl } from './watch.ts';

export interface ApiServerOptions {
  readonly context: ApiContext;
  readonly faults: Faults;
  readonly audit: AuditLog;
  readonly token: string;
  readonly certificate: string;
  readonly privateKey: string;
  /** 0 = a free port. */
  readonly port: number;
}

export interface ApiServer {
  readonly port: number;
  close(): Promise<void>;
}

const health = new Set(['/readyz', '/livez', '/healthz']);
const bodiless: ReadonlySet<string> = new Set(['get', 'list', 'watch']);
const plainJson: Form = { as: 'Object', yaml: false };

/** A request while it is being served. */
interface Exchange {
  readonly request: IncomingMessage;
  readonly url: URL;
  readonly started: number;
  route?: Route | undefined;
  plan?: FaultPlan;
  /** Set where the audit log cannot tell it from the path. */
  uid?: string | undefined;
}

function isAuthorized(request: IncomingMessage, token: string): boolean {
  const [scheme = '', given = ''] = (request.headers.authorization ?? '').split(' ');
  const [actual, expected] = [Buffer.from(given), Buffer.from(token)];
  return scheme.toLowerCase() === 'bearer' && actual.length === expected.length && timingSafeEqual(actual, expected);
}

const toApiError = (error: unknown, log: (message: string) => void): ApiError => {
  if (error instanceof ApiError) return error;
  log(`a request failed: ${error instanceof Error ? error.stack : error}`);
  return internalError(error instanceof Error ? error.message : String(error));
};

/** The HTTPS API server: authentication, routing, faults, audit. What the verbs do is in `handlers.ts`. */
export async function startApiServer(options: ApiServerOptions): Promise<ApiServer> {
  const { context, faults, audit } = options;
  const upgrader = createUpgrader();
  const watches = new Map<WatchControl, Route>();

  const begin = (request: IncomingMessage): Exchange => ({
    request,
    url: new URL(request.url ?? '/', 'https://localhost'),
    started: performance.now(),
  });

  const record = ({ request, route, started, uid }: Exchange, code: number): void => {
    if (!route) return;
    audit.write({
      at: new Date().toISOString(),
      verb: route.verb,
      resource: route.resource.resource,
      subresource: route.subresource,
      namespace: route.namespace ?? '',
      name: route.name,
      ...(uid ? { uid } : {}),
      code,
      ms: Math.round((performance.now() - started) * 10) / 10,
      userAgent: request.headers['user-agent'] ?? '',
    });
  };

  /** 401, the route (undefined for documents) and the faults: what comes before every piece of work. */
  const admit = (exchange: Exchange): Route | undefined => {
    const { request, url } = exchange;
    if (!isAuthorized(request, options.token)) throw new ApiError(401, 'Unauthorized', 'Unauthorized');
    const route = parseRoute(request.method ?? 'GET', url.pathname, url.searchParams);
    exchange.route = route;
    if (!route) return undefined;
    const { verb, resource, subresource, name } = route;
    exchange.plan = planFaults(faults.match({ verb, resource: resource.resource, subresource, name }), verb);
    return route;
  };

  /** Runs the faults that act before the work. False when the request is to be forgotten. */
  const suffer = async (plan: FaultPlan, socket: Duplex): Promise<boolean> => {
    if (plan.dropBefore) {
      socket.destroy();
      return false;
    }
    if (plan.delayMs > 0) {
      await sleep(plan.delayMs);
      if (socket.destroyed) return false;
    }
    if (plan.delayThenCommitMs > 0) await sleep(plan.delayThenCommitMs);
    if (plan.refusal) throw plan.refusal.error;
    return true;
  };

  const send = (response: ServerResponse, code: number, value: unknown, form: Form): void => {
    const body = serialize(value, form);
    response.writeHead(code, {
      'content-type': form.yaml ? 'application/yaml' : 'application/json',
      'content-length': Buffer.byteLength(body),
    });
    response.end(body);
  };

  const openWatch = (exchange: Exchange, route: Route, form: Form, response: ServerResponse): void => {
    const { resource, namespace } = route;
    const control = serveWatch(context, { resource, namespace, query: exchange.url.searchParams, form }, response);
    watches.set(control, route);
    response.on('close', () => watches.delete(control));
    applyWatchFaults(control, exchange.plan!.flags);
  };

  const render = (exchange: Exchange, route: Route, form: Form, answer: Answer): unknown => {
    if ('plain' in answer) return answer.plain;
    const how = { form, resource: route.resource, query: exchange.url.searchParams, now: context.store.now() };
    return 'list' in answer ? renderList(answer.list, how) : renderObject(answer.object, how);
  };

  const serveResource = async (exchange: Exchange, route: Route, response: ServerResponse): Promise<void> => {
    const { request, url } = exchange;
    const plan = exchange.plan!;
    // Read first: a delayed write must be complete when its client leaves.
    const body = bodiless.has(route.verb) ? undefined : await readBody(request);
    if (!(await suffer(plan, request.socket))) return;
    if (route.subresource === 'log') return serveLogs(context, route, url.searchParams, response);
    if (['exec', 'attach', 'portforward'].includes(route.subresource)) {
      prepareStream({ context, route, query: url.searchParams, plan }, request);
    }
    const form = negotiate(request.headers.accept);
    if (route.verb === 'watch') return openWatch(exchange, route, form, response);
    const warn = (text: string): void => void response.appendHeader('warning', `299 - ${JSON.stringify(text)}`);
    const call = {
      context,
      route,
      query: url.searchParams,
      request,
      body,
      write: { mutations: plan.mutations, annotations: plan.annotations, warn },
    };
    const answer = handlers[route.verb]({ ...call, hideFromListMs: plan.hideFromListMs });
    if ('object' in answer) exchange.uid = answer.object.metadata.uid;
    if (plan.commitThenDrop) {
      request.socket.destroy();
      return;
    }
    send(response, answer.code, render(exchange, route, form, answer), form);
  };

  const fail = (exchange: Exchange, response: ServerResponse, error: unknown): void => {
    const failure = toApiError(error, context.log);
    if (response.headersSent || response.destroyed) {
      response.destroy();
      return;
    }
    const retryAfter = exchange.plan?.refusal?.retryAfter ?? (failure.code === 504 ? 1 : undefined);
    if (retryAfter !== undefined) response.setHeader('retry-after', String(retryAfter));
    if (exchange.plan?.commitThenDrop) exchange.request.socket.destroy();
    else send(response, failure.code, failure.status, plainJson);
  };

  const serve = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const exchange = begin(request);
    const skew = faults.skewMs();
    if (skew !== 0) response.setHeader('date', new Date(Date.now() + skew).toUTCString());
    response.setHeader('cache-control', 'no-cache, private');
    response.on('close', () => record(exchange, response.headersSent ? response.statusCode : 0));
    try {
      if (health.has(exchange.url.pathname) && !request.headers.authorization) {
        response.end('ok');
        return;
      }
      const route = admit(exchange);
      if (route) return await serveResource(exchange, route, response);
      if (health.has(exchange.url.pathname)) {
        response.end('ok');
        return;
      }
      const document = discover(exchange.url.pathname);
      if (document === undefined) throw noSuchPath();
      send(response, 200, document, plainJson);
    } catch (error) {
      fail(exchange, response, error);
    }
  };

  const upgrade = async (request: IncomingMessage, socket: Duplex, head: Buffer): Promise<void> => {
    const exchange = begin(request);
    socket.on('error', () => socket.destroy());
    try {
      const route = admit(exchange);
      if (!route || !['exec', 'attach', 'portforward'].includes(route.subresource)) throw noSuchPath();
      const plan = exchange.plan!;
      if (!(await suffer(plan, socket))) return record(exchange, 0);
      const serveSocket = prepareStream({ context, route, query: exchange.url.searchParams, plan }, request);
      const protocol = chooseProtocol(request, route, plan);
      if (!protocol) {
        throw new ApiError(
          403,
          'Forbidden',
          'no WebSocket protocol in common: offer v5.channel.k8s.io or v4.channel.k8s.io (port-forward: v4.channel.k8s.io)',
        );
      }
      upgrader.accept(request, socket, head, protocol, serveSocket, () => record(exchange, 101));
    } catch (error) {
      const failure = toApiError(error, context.log);
      refuseUpgrade(socket, failure.code, JSON.stringify(failure.status));
      record(exchange, failure.code);
    }
  };

  const stopWatching = faults.onChange(() => {
    for (const [control, { verb, resource, subresource, name }] of watches) {
      applyWatchFaults(control, planFaults(faults.match({ verb, resource: resource.resource, subresource, name }), verb).flags);
    }
  });

  const server = createServer({ cert: options.certificate, key: options.privateKey, keepAliveTimeout: 180_000 });
  server.on('request', (request, response) => void serve(request, response));
  server.on('upgrade', (request, socket, head) => void upgrade(request, socket, head));
  server.requestTimeout = 0;
  await listen(server, options.port);
  return {
    port: (server.address() as AddressInfo).port,
    async close() {
      stopWatching();
      upgrader.close();
      const closed = new Promise((resolve) => server.close(resolve));
      server.closeAllConnections();
      await closed;
    },
  };
}

function applyWatchFaults(control: WatchControl, flags: ReadonlySet<string>): void {
  if (flags.has('watch_silence')) control.silence();
  if (flags.has('watch_gone')) control.gone();
  if (flags.has('watch_close')) control.close();
}

function listen(server: Server, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject);
    server.listen(port, '127.0.0.1', () => {
      server.off('error', reject);
      resolve();
    });
  });
}
