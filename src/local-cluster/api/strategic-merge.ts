import { badRequest } from './status.ts';

type Json = unknown;
type Obj = Record<string, Json>;

/** List fields that are merged by a key, as the Kubernetes types declare them; every other list is replaced whole. */
const mergeKeys: Readonly<Record<string, string>> = {
  addresses: 'type',
  conditions: 'type',
  containers: 'name',
  env: 'name',
  ephemeralContainers: 'name',
  hostAliases: 'ip',
  hostIPs: 'ip',
  imagePullSecrets: 'name',
  initContainers: 'name',
  ownerReferences: 'uid',
  podIPs: 'ip',
  ports: 'containerPort',
  resourceClaims: 'name',
  schedulingGates: 'name',
  secrets: 'name',
  topologySpreadConstraints: 'topologyKey',
  volumeDevices: 'devicePath',
  volumeMounts: 'mountPath',
  volumes: 'name',
};
const keysOfKind: Readonly<Record<string, Readonly<Record<string, string | undefined>>>> = {
  Service: { ports: 'port' },
  // Only in a Pod's spec is this list keyed.
  ServiceAccount: { imagePullSecrets: undefined },
};
/** Lists of scalars that are merged as sets. */
const mergedScalars = new Set(['finalizers', 'podCIDRs']);

const isObject = (value: Json): value is Obj => typeof value === 'object' && value !== null && !Array.isArray(value);

const DIRECTIVE = '$patch';
const ORDER = '$setElementOrder/';
const REMOVE = '$deleteFromPrimitiveList/';
const RETAIN = '$retainKeys';

function mergeKeyOf(kind: string, field: string): string | undefined {
  const own = keysOfKind[kind];
  return own && field in own ? own[field] : mergeKeys[field];
}

/** Drops what only a patch may hold, for parts that are taken over whole. */
function withoutDirectives(value: Json): Json {
  if (Array.isArray(value)) {
    return value.filter((item) => !(isObject(item) && item[DIRECTIVE] === 'delete')).map(withoutDirectives);
  }
  if (!isObject(value)) return value;
  const entries = Object.entries(value).filter(([key, part]) => !key.startsWith('$') && part !== null);
  return Object.fromEntries(entries.map(([key, part]) => [key, withoutDirectives(part)]));
}

/**
 * Puts merged items into the order that the patch asks for. Items the patch does not name keep their place relative to
 * their old neighbours.
 */
function inOrder<T>(merged: readonly T[], wanted: readonly Json[], before: readonly Json[], keyOf: (item: Json) => Json): T[] {
  const wantedKeys = wanted.map(keyOf);
  const oldKeys = before.map(keyOf);
  const rank = (item: T): number => wantedKeys.indexOf(keyOf(item));
  const named = merged.filter((item) => rank(item) >= 0).sort((a, b) => rank(a) - rank(b));
  const others = merged.filter((item) => rank(item) < 0);
  const result: T[] = [];
  while (named.length > 0 && others.length > 0) {
    const place = oldKeys.indexOf(keyOf(named[0]));
    result.push((place < 0 || place < oldKeys.indexOf(keyOf(others[0])) ? named : others).shift()!);
  }
  return [...result, ...named, ...others];
}

function mergeKeyed(kind: string, current: readonly Json[], patch: readonly Json[], key: string, order: Json): Json[] {
  const items = patch.filter(isObject);
  if (items.length !== patch.length) throw badRequest('unable to find api field in struct: a keyed list holds objects only');
  if (items.some((item) => item[DIRECTIVE] === 'replace')) {
    return items.filter((item) => item[DIRECTIVE] !== 'replace').map(withoutDirectives);
  }
  const result = [...current];
  for (const item of items) {
    if (item[key] === undefined) throw badRequest(`map: ${JSON.stringify(item)} does not contain declared merge key: ${key}`);
    const at = result.findIndex((existing) => isObject(existing) && existing[key] === item[key]);
    if (item[DIRECTIVE] === 'delete') {
      if (at >= 0) result.splice(at, 1);
    } else if (at >= 0) {
      result[at] = mergeObject(kind, result[at] as Obj, item);
    } else {
      result.push(withoutDirectives(item));
    }
  }
  const wanted = Array.isArray(order) ? order : items.filter((item) => item[DIRECTIVE] !== 'delete');
  return inOrder(result, wanted, current, (item) => (isObject(item) ? item[key] : item));
}

function mergeScalars(current: readonly Json[], patch: readonly Json[], order: Json): Json[] {
  const merged = [...current, ...patch.filter((item) => !current.includes(item))];
  return Array.isArray(order) ? inOrder(merged, order, current, (item) => item) : merged;
}

function mergeField(kind: string, field: string, current: Json, patch: Json, order: Json): Json {
  if (Array.isArray(patch)) {
    const before = Array.isArray(current) ? current : [];
    const key = mergeKeyOf(kind, field);
    if (key) return mergeKeyed(kind, before, patch, key, order);
    return mergedScalars.has(field) ? mergeScalars(before, patch, order) : withoutDirectives(patch);
  }
  if (!isObject(patch)) return patch;
  return isObject(current) ? mergeObject(kind, current, patch) : withoutDirectives(patch);
}

/** Applies the list directives that may come without a value for their list. */
function applyListDirectives(kind: string, result: Obj, patch: Obj): void {
  for (const [name, value] of Object.entries(patch)) {
    const field = name.slice(name.indexOf('/') + 1);
    const current = result[field];
    if (!Array.isArray(value) || !Array.isArray(current)) continue;
    if (name.startsWith(REMOVE)) result[field] = current.filter((item) => !value.includes(item));
    if (name.startsWith(ORDER) && !(field in patch)) {
      const key = mergeKeyOf(kind, field);
      result[field] = inOrder(current, value, current, (item) => (key && isObject(item) ? item[key] : item));
    }
  }
}

function mergeObject(kind: string, current: Obj, patch: Obj): Obj {
  if (patch[DIRECTIVE] === 'replace') return withoutDirectives(patch) as Obj;
  if (patch[DIRECTIVE] === 'delete') return {};
  const result: Obj = { ...current };
  const retain = patch[RETAIN];
  if (Array.isArray(retain)) for (const key of Object.keys(result)) if (!retain.includes(key)) delete result[key];
  applyListDirectives(kind, result, patch);
  for (const [field, value] of Object.entries(patch)) {
    if (field.startsWith('$')) continue;
    if (value === null) delete result[field];
    else result[field] = mergeField(kind, field, result[field], value, patch[ORDER + field]);
  }
  return result;
}

/** A Kubernetes strategic merge patch: lists merge by their keys, with the `$patch`, order, removal and retain directives. */
export function strategicMerge<T extends { kind: string }>(object: T, patch: unknown): T {
  if (!isObject(patch)) throw badRequest('a strategic merge patch must be a JSON object');
  return mergeObject(object.kind, object as unknown as Obj, patch) as unknown as T;
}
