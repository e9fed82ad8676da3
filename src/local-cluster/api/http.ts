import type { IncomingMessage, ServerResponse } from 'node:http';
import { readBody } from './body.ts';
import type { ApiServerOptions } from './context.ts';
import { discover } from './discovery.ts';
import {
  type Admitted,
  admit,
  beginExchange,
  type Exchange,
  type Routed,
  record,
  suffer,
  toApiError,
  withFaults,
} from './gate.ts';
import { type Answer, handlers } from './handlers.ts';
import { serveLogs } from './logs.ts';
import { type Form, negotiate } from './negotiate.ts';
import type { OpenWatches } from './open-watches.ts';
import { renderList, renderObject, serialize } from './render.ts';
import { noSuchPath } from './status.ts';
import { isStream, prepareStream } from './streams.ts';
import { serveWatch } from './watch.ts';

const health = new Set(['/readyz', '/livez', '/healthz']);
const bodiless: ReadonlySet<string> = new Set(['get', 'list', 'watch']);
const plainJson: Form = { as: 'Object', yaml: false };

function send(response: ServerResponse, code: number, value: unknown, form: Form): void {
  const body = serialize(value, form);
  response.writeHead(code, {
    'content-type': form.yaml ? 'application/yaml' : 'application/json',
    'content-length': Buffer.byteLength(body),
  });
  response.end(body);
}

function render(exchange: Admitted, form: Form, answer: Answer, now: number): unknown {
  if ('plain' in answer) return answer.plain;
  const how = { form, resource: exchange.route.resource, query: exchange.query, now };
  return 'list' in answer ? renderList(answer.list, how) : renderObject(answer.object, how);
}

/** Everything but upgrades: resources, logs, watches, documents, health. */
export function createHttpHandler({ context, faults, audit, token }: ApiServerOptions, watches: OpenWatches) {
  const openWatch = ({ route, plan, query }: Admitted, form: Form, response: ServerResponse): void => {
    const { resource, namespace } = route;
    const control = serveWatch(context, { resource, namespace, query, form }, response);
    watches.add(control, route, plan);
    response.on('close', () => watches.remove(control));
  };

  const answerObject = (exchange: Admitted, body: unknown, response: ServerResponse): void => {
    const { request, route, plan, query } = exchange;
    const form = negotiate(request.headers.accept);
    if (route.verb === 'watch') {
      openWatch(exchange, form, response);
      return;
    }
    const warn = (text: string): void => void response.appendHeader('warning', `299 - ${JSON.stringify(text)}`);
    const write = { mutations: plan.mutations, annotations: plan.annotations, warn };
    const { hideFromListMs } = plan;
    const answer = handlers[route.verb]({ context, route, query, request, body, write, hideFromListMs });
    if ('object' in answer) {
      exchange.uid = answer.object.metadata.uid;
      exchange.name = answer.object.metadata.name;
    }
    if (plan.commitThenDrop) request.socket.destroy();
    else send(response, answer.code, render(exchange, form, answer, context.store.now()), form);
  };

  const serveResource = async (routed: Routed, response: ServerResponse): Promise<void> => {
    const { request, route, query } = routed;
    // Read first: a delayed write must be complete when its client leaves.
    const body = bodiless.has(route.verb) ? undefined : await readBody(request);
    const exchange = withFaults(routed, faults, body);
    const { plan } = exchange;
    if (!(await suffer(plan, request.socket))) return;
    if (route.subresource === 'log') return serveLogs(context, route, query, response);
    // Without an upgrade these can only be refused.
    if (isStream(route)) prepareStream({ context, route, query, plan }, request);
    answerObject(exchange, body, response);
  };

  const serveDocument = ({ path }: Exchange, response: ServerResponse): void => {
    if (health.has(path)) {
      response.setHeader('content-type', 'text/plain; charset=utf-8');
      response.end('ok');
      return;
    }
    if (path === '/openapi/v2') {
      // An empty message: kubectl looks there for kinds that are not in v3, to find that nobody has them and say so.
      response.setHeader('content-type', 'application/com.github.proto-openapi.spec.v2.v1.0+protobuf');
      response.end();
      return;
    }
    const document = discover(path);
    if (document === undefined) throw noSuchPath();
    send(response, 200, document, plainJson);
  };

  const fail = (exchange: Exchange, response: ServerResponse, error: unknown): void => {
    if (exchange.plan?.commitThenDrop) exchange.request.socket.destroy();
    // The answer has begun, or nobody waits for one: all that is left is to end the connection.
    if (response.headersSent || response.destroyed || exchange.request.socket.destroyed) {
      response.destroy();
      return;
    }
    const failure = toApiError(error, context.log);
    const retryAfter = exchange.plan?.refusal?.retryAfter ?? failure.status.details?.retryAfterSeconds;
    if (retryAfter !== undefined) response.setHeader('retry-after', String(retryAfter));
    send(response, failure.code, failure.status, plainJson);
  };

  return async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
    const exchange = beginExchange(request);
    const skew = faults.skewMs();
    if (skew !== 0) response.setHeader('date', new Date(Date.now() + skew).toUTCString());
    response.setHeader('cache-control', 'no-cache, private');
    response.on('close', () => record(audit, exchange, response.headersSent ? response.statusCode : 0));
    try {
      const open = health.has(exchange.path) && !request.headers.authorization;
      const admitted = open ? undefined : admit(exchange, token);
      if (admitted) await serveResource(admitted, response);
      else serveDocument(exchange, response);
    } catch (error) {
      fail(exchange, response, error);
    }
  };
}
