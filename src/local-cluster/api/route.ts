import { findResource, type Resource } from './resources.ts';
import { badRequest, methodNotAllowed, noSuchPath } from './status.ts';

export type Verb = 'get' | 'list' | 'watch' | 'create' | 'update' | 'patch' | 'delete' | 'deletecollection';

/** What a request is about, as an authorizer or an audit log would name it. */
export interface Route {
  readonly verb: Verb;
  readonly resource: Resource;
  readonly namespace: string | undefined;
  /** '' for requests on the collection. */
  readonly name: string;
  /** '' for the object itself. */
  readonly subresource: string;
}

const namespaceSubresources = new Set(['status', 'finalize']);
const streams = new Set(['exec', 'attach', 'portforward']);

function decode(path: string): string[] {
  try {
    return path.split('/').filter(Boolean).map(decodeURIComponent);
  } catch {
    throw badRequest(`the path ${path} is not properly percent-encoded`);
  }
}

function target(parts: readonly string[], group: string, version: string): Omit<Route, 'verb'> {
  const inNamespace = parts[0] === 'namespaces' && parts.length > 2 && !namespaceSubresources.has(parts[2]!);
  const [plural = '', name = '', subresource = '', ...rest] = inNamespace ? parts.slice(2) : parts;
  const resource = findResource(group, version, plural);
  const known = resource && (subresource === '' || resource.subresources?.includes(subresource)) && rest.length === 0;
  const dotted = [name, inNamespace ? parts[1] : ''].find((part) => part === '.' || part === '..');
  if (dotted) throw badRequest(`Name parameter invalid: "${dotted}": may not be '${dotted}'`);
  if (!known || (inNamespace && !resource.namespaced)) throw noSuchPath();
  return { resource, namespace: inNamespace ? parts[1] : undefined, name, subresource };
}

function verbFor(method: string, query: URLSearchParams, on: Omit<Route, 'verb'>): Verb {
  const collection = on.name === '';
  if (streams.has(on.subresource)) {
    if (method === 'GET' || method === 'POST') return method === 'GET' ? 'get' : 'create';
    throw methodNotAllowed();
  }
  const watching = ['1', 'true'].includes(query.get('watch') ?? '');
  if (method === 'GET' && collection) return watching ? 'watch' : 'list';
  if (method === 'GET') return 'get';
  if (method === 'POST' && collection) return 'create';
  if (method === 'DELETE' && collection && on.resource.resource !== 'namespaces') return 'deletecollection';
  if (collection || on.subresource === 'log') throw methodNotAllowed();
  if (method === 'PUT') return 'update';
  if (method === 'PATCH') return 'patch';
  if (method === 'DELETE' && on.subresource === '') return 'delete';
  throw methodNotAllowed();
}

function allowed(verb: Verb, on: Omit<Route, 'verb'>): boolean {
  if (on.resource.virtual) return verb === 'create';
  // A namespaced object needs its namespace; only reads may span all of them.
  if (on.resource.namespaced && !on.namespace) return (verb === 'list' || verb === 'watch') && on.name === '';
  return true;
}

/** undefined when the path is no resource path; throws 404 and 405 as the server answers them. */
export function parseRoute(method: string, path: string, query: URLSearchParams): Route | undefined {
  const parts = decode(path);
  const isCore = parts[0] === 'api' && parts.length > 2;
  if (!isCore && !(parts[0] === 'apis' && parts.length > 3)) return undefined;
  const on = isCore ? target(parts.slice(2), '', parts[1]!) : target(parts.slice(3), parts[1]!, parts[2]!);
  const verb = verbFor(method, query, on);
  if (!allowed(verb, on)) throw methodNotAllowed();
  return { verb, ...on };
}
