import { once } from 'node:events';
import type { ServerResponse } from 'node:http';
import { pipeline } from 'node:stream/promises';
import type { ApiContext } from './context.ts';
import { invalidValue } from './field-errors.ts';
import { numberParameter } from './list.ts';
import { findContainer } from './pod-target.ts';
import type { Route } from './route.ts';
import { ApiError, badRequest, invalid, isRefusal } from './status.ts';

const flag = (query: URLSearchParams, name: string): boolean => ['true', '1'].includes(query.get(name) ?? '');
const optionsKind = { resource: 'podlogoptions', kind: 'PodLogOptions', group: '' };

/** The limits of a log request; each must be as large as the server demands. */
function limits(
  podName: string,
  query: URLSearchParams,
  now: number,
): { tailLines?: number; sinceSeconds?: number; limitBytes?: number } {
  const result: Record<string, number> = {};
  const least = { tailLines: 0, sinceSeconds: 1, limitBytes: 1 };
  for (const [name, minimum] of Object.entries(least)) {
    const value = numberParameter(query, name);
    if (value === undefined) continue;
    if (value < minimum) {
      throw invalid(optionsKind, podName, [invalidValue(name, value, `must be greater than or equal to ${minimum}`)]);
    }
    result[name] = value;
  }
  const since = query.get('sinceTime');
  if (since) {
    const at = Date.parse(since);
    if (Number.isNaN(at)) throw badRequest(`parsing time "${since}" as RFC 3339: cannot parse`);
    result.sinceSeconds = Math.max(1, Math.ceil((now - at) / 1000));
  }
  return result;
}

/** GET …/log: plain text, followed until the container or the client ends. */
export async function serveLogs(
  context: ApiContext,
  route: Route,
  query: URLSearchParams,
  response: ServerResponse,
): Promise<void> {
  const { pod, ref } = findContainer(context, route.namespace, route.name, query);
  const options = limits(route.name, query, context.store.now());
  const gone = new AbortController();
  response.on('close', () => gone.abort());
  response.setHeader('content-type', 'text/plain');
  if (!pod.spec.nodeName) {
    response.end();
    return;
  }
  try {
    const source = await context.node.logs(ref, {
      follow: flag(query, 'follow'),
      previous: flag(query, 'previous'),
      timestamps: flag(query, 'timestamps'),
      ...options,
      signal: gone.signal,
    });
    response.flushHeaders();
    await Promise.race([pipeline(source, response), once(response, 'close')]);
    source.destroy();
  } catch (error) {
    if (gone.signal.aborted) return;
    if (!isRefusal(error) || response.headersSent) throw error;
    const reason = error.status === 404 ? 'NotFound' : error.status === 400 ? 'BadRequest' : 'InternalError';
    throw new ApiError(error.status, reason, error.message);
  }
}
