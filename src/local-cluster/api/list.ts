import type { KubeObject } from '../types.ts';
import type { ApiContext } from './context.ts';
import type { Resource } from './resources.ts';
import { matcherOf } from './selectors.ts';
import { ApiError, badRequest, expired } from './status.ts';

export interface ListMeta {
  readonly resourceVersion: string;
  readonly continue?: string;
  readonly remainingItemCount?: number;
}

export interface ListResult {
  readonly items: readonly KubeObject[];
  readonly metadata: ListMeta;
}

interface Cursor {
  /** All pages of one list show the objects as they were at this version. */
  readonly version: number;
  readonly after: string;
}

const keyOf = (object: KubeObject): string => `${object.metadata.namespace ?? ''}/${object.metadata.name}`;

const encodeCursor = ({ version, after }: Cursor): string =>
  Buffer.from(JSON.stringify({ v: 'meta.k8s.io/v1', rv: version, start: after })).toString('base64url');

function decodeCursor(text: string): Cursor {
  try {
    const { rv, start } = JSON.parse(Buffer.from(text, 'base64url').toString('utf8'));
    if (Number.isInteger(rv) && typeof start === 'string') return { version: rv, after: start };
  } catch (error) {
    throw badRequest(
      `invalid continue token: continue key is not valid: ${error instanceof Error ? error.message : String(error)}`,
    );
  }
  throw badRequest('invalid continue token: continue key is not valid: it names no version and start');
}

/** A non-negative whole number from the query, or undefined. */
export function numberParameter(query: URLSearchParams, name: string): number | undefined {
  const text = query.get(name);
  if (text === null || text === '') return undefined;
  if (!/^-?\d+$/.test(text)) throw badRequest(`strconv.ParseInt: parsing "${text}": invalid syntax`);
  return Number(text);
}

export function versionParameter(query: URLSearchParams): number | undefined {
  const text = query.get('resourceVersion');
  if (text === null || text === '') return undefined;
  if (!/^\d+$/.test(text)) {
    throw new ApiError(
      500,
      '',
      `resourceVersion: Invalid value: "${text}": strconv.ParseUint: parsing "${text}": invalid syntax`,
    );
  }
  return Number(text);
}

function tooLarge(asked: number, current: string): ApiError {
  return new ApiError(504, 'Timeout', `Timeout: Too large resource version: ${asked}, current: ${current}`, {
    causes: [{ reason: 'ResourceVersionTooLarge', message: 'Too large resource version' }],
    retryAfterSeconds: 1,
  });
}

/** The version whose state this list is to show. */
function versionOf(context: ApiContext, query: URLSearchParams, cursor: Cursor | undefined): number {
  const current = Number(context.store.resourceVersion);
  if (cursor) return cursor.version;
  const asked = versionParameter(query) ?? 0;
  if (asked > current) throw tooLarge(asked, context.store.resourceVersion);
  return query.get('resourceVersionMatch') === 'Exact' && asked > 0 ? asked : current;
}

/** Objects are in key order. */
function firstAfter(objects: readonly KubeObject[], key: string): number {
  let [low, high] = [0, objects.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (keyOf(objects[middle] as KubeObject) > key) high = middle;
    else low = middle + 1;
  }
  return low;
}

/** One page of a list. The pages of a list agree with each other whatever happens in between, or end in 410. */
export function listObjects(
  context: ApiContext,
  resource: Resource,
  namespace: string | undefined,
  query: URLSearchParams,
  hideForMs: number,
): ListResult {
  const matches = matcherOf(resource.resource, query);
  const limit = numberParameter(query, 'limit') ?? 0;
  const token = query.get('continue');
  const cursor = token ? decodeCursor(token) : undefined;
  const version = versionOf(context, query, cursor);
  const objects = context.store.listAt(resource.resource, namespace, version);
  if (!objects) {
    if (!cursor) throw expired('The resourceVersion for the provided list is too old.');
    const again = encodeCursor({ version: Number(context.store.resourceVersion), after: cursor.after });
    throw expired(
      'The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.',
      { continue: again },
    );
  }
  const selected = Boolean(query.get('labelSelector') || query.get('fieldSelector'));
  const shown = (object: KubeObject): boolean =>
    matches(object) && !(hideForMs > 0 && context.hidden(object.metadata.uid, hideForMs));
  // Only a list without a selector says how many remain: with one, a page looks no further than its end.
  const enough = limit > 0 && selected ? limit + 1 : Number.POSITIVE_INFINITY;
  const visible: KubeObject[] = [];
  for (let at = cursor ? firstAfter(objects, cursor.after) : 0; at < objects.length && visible.length < enough; at += 1) {
    const object = objects[at] as KubeObject;
    if (shown(object)) visible.push(object);
  }
  if (limit <= 0 || visible.length <= limit) return { items: visible, metadata: { resourceVersion: String(version) } };
  const items = visible.slice(0, limit);
  return {
    items,
    metadata: {
      resourceVersion: String(version),
      continue: encodeCursor({ version, after: keyOf(items.at(-1)!) }),
      ...(selected ? {} : { remainingItemCount: visible.length - limit }),
    },
  };
}
