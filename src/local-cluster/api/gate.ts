import { timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { setTimeout as sleep } from 'node:timers/promises';
import type { AuditLog } from '../audit.ts';
import type { Faults } from '../faults.ts';
import { type FaultPlan, planFaults } from './fault-plan.ts';
import { parseRoute, type Route } from './route.ts';
import { ApiError, internalError } from './status.ts';

/** A request while it is being served. */
export interface Exchange {
  readonly request: IncomingMessage;
  readonly path: string;
  readonly query: URLSearchParams;
  readonly started: number;
  route?: Route | undefined;
  plan?: FaultPlan;
  /** Of the object in the answer, for the audit log. */
  uid?: string | undefined;
  /** Of the object in the body of a create, or in the answer: a create names none in its path. */
  name?: string | undefined;
}

export interface Routed extends Exchange {
  readonly route: Route;
}

/** A request to a resource, past the gate. */
export interface Admitted extends Routed {
  readonly plan: FaultPlan;
}

/** Never throws: paths are taken as they are, so that `..` is a name that does not exist, not another path. */
export function beginExchange(request: IncomingMessage): Exchange {
  const [path = '/', ...query] = (request.url ?? '/').split('?');
  return { request, path, query: new URLSearchParams(query.join('?')), started: performance.now() };
}

export function planFor(faults: Faults, { verb, resource, subresource, name }: Route): FaultPlan {
  return planFaults(faults.match({ verb, resource: resource.resource, subresource, name }), verb);
}

function checkToken(request: IncomingMessage, token: string): void {
  const [scheme = '', given = ''] = (request.headers.authorization ?? '').split(' ');
  const [actual, expected] = [Buffer.from(given), Buffer.from(token)];
  const known = scheme.toLowerCase() === 'bearer' && actual.length === expected.length && timingSafeEqual(actual, expected);
  if (!known) throw new ApiError(401, 'Unauthorized', 'Unauthorized');
}

/** 401 and the route: what comes before every piece of work. undefined for paths that are no resources. */
export function admit(exchange: Exchange, token: string): Routed | undefined {
  const { request, path, query } = exchange;
  checkToken(request, token);
  exchange.route = parseRoute(request.method ?? 'GET', path, query);
  return exchange.route && (exchange as Routed);
}

/** The faults that the request meets; asked once, since rules count. A create is known by the name in its body. */
export function withFaults(exchange: Routed, faults: Faults, body?: unknown): Admitted {
  const { route } = exchange;
  const { name } = (body as { metadata?: { name?: unknown } } | undefined)?.metadata ?? {};
  if (route.verb === 'create' && route.name === '' && typeof name === 'string') exchange.name = name;
  exchange.plan = planFor(faults, { ...route, name: exchange.name ?? route.name });
  return exchange as Admitted;
}

/** Acts out the faults that come before the work. False when the request is to be forgotten. */
export async function suffer(plan: FaultPlan, socket: Duplex): Promise<boolean> {
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
}

/** Writes the audit line of a request; `code` 0 = ended without an answer. Documents and health checks have none. */
export function record(audit: AuditLog, { request, route, started, uid, name, plan }: Exchange, code: number): void {
  if (!route) return;
  audit.write({
    at: new Date().toISOString(),
    verb: route.verb,
    resource: route.resource.resource,
    subresource: route.subresource,
    namespace: route.namespace ?? '',
    name: name ?? route.name,
    ...(uid ? { uid } : {}),
    code,
    ms: Math.round((performance.now() - started) * 10) / 10,
    userAgent: request.headers['user-agent'] ?? '',
    ...(plan && plan.names.length > 0 ? { faults: plan.names } : {}),
  });
}

export function toApiError(error: unknown, log: (message: string) => void): ApiError {
  if (error instanceof ApiError) return error;
  log(`a request failed: ${error instanceof Error ? error.stack : error}`);
  return internalError(error instanceof Error ? error.message : String(error));
}
