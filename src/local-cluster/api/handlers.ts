import type { IncomingMessage } from 'node:http';
import type { KubeObject } from '../types.ts';
import { patchTypeOf } from './body.ts';
import type { ApiContext, WriteOptions } from './context.ts';
import { unsupported } from './field-errors.ts';
import { type ListResult, listObjects } from './list.ts';
import { applyJsonPatch, applyPatch } from './patch.ts';
import { deleteObject, parseDeleteOptions } from './remove.ts';
import type { Route, Verb } from './route.ts';
import { ApiError, conflict, invalid, notFound } from './status.ts';
import { createObject, type Target, updateObject } from './write.ts';

export interface Call {
  readonly context: ApiContext;
  readonly route: Route;
  readonly query: URLSearchParams;
  readonly request: IncomingMessage;
  /** Parsed; undefined when there is none. */
  readonly body: unknown;
  readonly write: Omit<WriteOptions, 'dryRun'>;
  readonly hideFromListMs: number;
}

export type Answer =
  | { readonly code: number; readonly object: KubeObject }
  | { readonly code: number; readonly list: ListResult }
  | { readonly code: number; readonly plain: object };

function target({ route }: Call): Target {
  return { resource: route.resource, namespace: route.namespace, name: route.name };
}

function writeOptions(call: Call): WriteOptions {
  const dryRun = call.query.getAll('dryRun').filter(Boolean);
  if (dryRun.some((value) => value !== 'All')) {
    const of = { resource: 'options', kind: 'CreateOptions', group: 'meta.k8s.io' };
    throw invalid(of, '', [unsupported('dryRun', dryRun, ['All'])]);
  }
  return { ...call.write, dryRun: dryRun.length > 0 };
}

function get(call: Call): Answer {
  const { route, context } = call;
  const object = context.store.get(route.resource.resource, route.namespace, route.name);
  if (!object) throw notFound(route.resource, route.name);
  return { code: 200, object };
}

/** Everything is allowed here; a `mutate` fault on the review can say otherwise. */
function review(call: Call): Answer {
  const body = call.body as KubeObject | undefined;
  const answer = {
    kind: call.route.resource.kind,
    apiVersion: 'authorization.k8s.io/v1',
    metadata: {},
    spec: body?.spec ?? {},
    status: { allowed: true },
  };
  return { code: 201, plain: applyJsonPatch(answer, [...call.write.mutations]) };
}

function create(call: Call): Answer {
  if (call.route.resource.virtual) return review(call);
  return { code: 201, object: createObject(call.context, target(call), call.body, writeOptions(call)) };
}

function update(call: Call): Answer {
  const { context, route } = call;
  const body = call.body as KubeObject | undefined;
  const current = context.store.get(route.resource.resource, route.namespace, route.name);
  const uid = body?.metadata?.uid;
  if (current && uid && uid !== current.metadata.uid) {
    const why = `StorageError: invalid object, Code: 4, AdditionalErrorMsg: Precondition failed: UID in precondition: ${uid}, UID in object meta: ${current.metadata.uid}`;
    throw conflict(route.resource, route.name, why);
  }
  return { code: 200, object: updateObject(context, target(call), route.subresource, () => body, writeOptions(call)) };
}

function patch(call: Call): Answer {
  const { context, route, request, body } = call;
  const type = patchTypeOf(request);
  const change = (current: KubeObject) => applyPatch(type, current, body);
  return { code: 200, object: updateObject(context, target(call), route.subresource, change, writeOptions(call)) };
}

function remove(call: Call): Answer {
  const { context, route, query, body } = call;
  const options = parseDeleteOptions(body, query);
  const { object, gone } = deleteObject(context.store, target(call), options);
  const explicit = options.propagationPolicy === 'Foreground' && !gone;
  if (!gone || route.resource.returnsDeleted) return { code: explicit ? 202 : 200, object };
  const { name, uid } = object.metadata;
  const group = route.resource.group ? { group: route.resource.group } : {};
  const details = { name, ...group, kind: route.resource.resource, uid };
  return { code: 200, plain: { kind: 'Status', apiVersion: 'v1', metadata: {}, status: 'Success', details } };
}

function list(call: Call): Answer {
  const { context, route, query, hideFromListMs } = call;
  return { code: 200, list: listObjects(context, route.resource, route.namespace, query, hideFromListMs) };
}

function removeAll(call: Call): Answer {
  const { context, route, query, body } = call;
  const options = parseDeleteOptions(body, query);
  const found = listObjects(context, route.resource, route.namespace, query, 0);
  for (const { metadata } of found.items) {
    try {
      deleteObject(context.store, { resource: route.resource, namespace: metadata.namespace, name: metadata.name }, options);
    } catch (error) {
      // Deleting one of them may have taken another with it.
      if (!(error instanceof ApiError && error.code === 404)) throw error;
    }
  }
  return { code: 200, list: found };
}

/** One function a verb, none of which awaits: a write is one step. Watches and streams are served apart. */
export const handlers: Readonly<Record<Exclude<Verb, 'watch'>, (call: Call) => Answer>> = {
  get,
  list,
  create,
  update,
  patch,
  delete: remove,
  deletecollection: removeAll,
};
