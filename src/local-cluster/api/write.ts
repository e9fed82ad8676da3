import { randomUUID } from 'node:crypto';
import { isDeepStrictEqual } from 'node:util';
import { timestamp } from '../store.ts';
import type { KubeObject } from '../types.ts';
import { unimplementedFields } from '../unimplemented.ts';
import { admitCreate, admitUpdate, checkNamespace, checkPolicies, randomSuffix } from './admission.ts';
import type { ApiContext, WriteOptions } from './context.ts';
import { applyDefaults, initialStatus } from './defaults.ts';
import { required } from './field-errors.ts';
import { applyJsonPatch } from './patch.ts';
import { checkQuotas } from './quota.ts';
import { apiVersionOf, type Resource, resources } from './resources.ts';
import { ApiError, alreadyExists, badRequest, conflict, invalid, notFound } from './status.ts';
import { checkShape, validate } from './validate.ts';
import { validateMetadataUpdate } from './validate-metadata.ts';
import { hasBadQuantity } from './validate-pod.ts';
import { validateUpdate } from './validate-update.ts';

export interface Target {
  readonly resource: Resource;
  readonly namespace: string | undefined;
  readonly name: string;
}

/** Checks that a body is an object of this kind and namespace, and gives it the parts every object has. */
function asObject(resource: Resource, namespace: string | undefined, body: unknown): KubeObject {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) {
    const got = body === undefined ? '<empty>' : JSON.stringify(body).slice(0, 100);
    const why = `couldn't get version/kind; json parse error: unexpected end of JSON input (${got})`;
    throw badRequest(`the object provided is unrecognized (must be of type ${resource.kind}): ${why}`);
  }
  const { kind = resource.kind, apiVersion = apiVersionOf(resource), metadata, ...rest } = body as Record<string, unknown>;
  if (apiVersion !== apiVersionOf(resource)) {
    throw badRequest(
      `the API version in the data (${apiVersion}) does not match the expected API version (${apiVersionOf(resource)})`,
    );
  }
  if (kind !== resource.kind) {
    throw badRequest(
      `${kind} in version "${resource.version}" cannot be handled as a ${resource.kind}: converting (${resource.version}.${kind}) to (${resource.group || 'core'}.${resource.kind}): unknown conversion`,
    );
  }
  const object = { kind, apiVersion, metadata: { ...(metadata as object | undefined) }, ...rest } as KubeObject;
  if (resource.namespaced) {
    object.metadata.namespace ||= namespace ?? '';
    if (object.metadata.namespace !== namespace) {
      throw badRequest('the namespace of the provided object does not match the namespace sent on the request');
    }
  } else {
    delete object.metadata.namespace;
  }
  delete (object.metadata as { managedFields?: unknown }).managedFields;
  checkShape(resource, object);
  return object;
}

function rejectBadQuantities(resource: Resource, object: KubeObject): void {
  if (resource.kind !== 'Pod' || !hasBadQuantity(object)) return;
  throw badRequest(
    'Pod in version "v1" cannot be handled as a Pod: quantities must match the regular expression \'^([+-]?[0-9.]+)([eEinumkKMGTP]*[-+]?[0-9]*)$\'',
  );
}

/** Forgets what only the server may say. */
function stripServerFields(object: KubeObject): void {
  for (const field of ['uid', 'creationTimestamp', 'deletionTimestamp', 'deletionGracePeriodSeconds', 'generation', 'selfLink']) {
    delete (object.metadata as unknown as Record<string, unknown>)[field];
  }
}

/** Order matters and is the server's: defaults, namespace, admission that changes, validation, policies, quota, the store. */
export function createObject(context: ApiContext, target: Target, body: unknown, options: WriteOptions): KubeObject {
  const { store } = context;
  const { resource, namespace } = target;
  let object = asObject(resource, namespace, body);
  if (object.metadata.resourceVersion) {
    throw new ApiError(500, '', 'resourceVersion should not be set on objects to be created');
  }
  stripServerFields(object);
  if (!object.metadata.name && object.metadata.generateName) {
    object.metadata.name = `${object.metadata.generateName.slice(0, 58)}${randomSuffix()}`;
  }
  rejectBadQuantities(resource, object);
  checkNamespace(store, resource, object);
  if (!object.metadata.name) {
    throw invalid(resource, '', [required('metadata.name', 'name or generateName is required')]);
  }
  applyDefaults(object);
  admitCreate(store, resource, object);
  if (options.mutations.length > 0) object = applyJsonPatch(object, options.mutations);
  if (Object.keys(options.annotations).length > 0) {
    object.metadata.annotations = { ...object.metadata.annotations, ...options.annotations };
  }
  if (resource.hasStatus) object.status = initialStatus(object);
  if (resource.kind === 'Pod') object.metadata.generation = 1;
  const errors = validate(resource, object);
  if (errors.length > 0) throw invalid(resource, object.metadata.name, errors);
  checkPolicies(store, resource, object, options.warn);
  for (const field of unimplementedFields(object)) options.warn(`${field} is not implemented by the embedded cluster`);
  checkQuotas(store, resource, object, resources);
  const taken = store.get(resource.resource, object.metadata.namespace, object.metadata.name);
  if (taken) throw alreadyExists(resource, object.metadata.name, taken.metadata.deletionTimestamp !== undefined);
  return options.dryRun ? dryRunCopy(context, object) : store.create(resource.resource, object);
}

/** What a dry run answers: everything but a resourceVersion. */
function dryRunCopy(context: ApiContext, object: KubeObject): KubeObject {
  const copy = structuredClone(object);
  copy.metadata.uid ??= randomUUID();
  copy.metadata.creationTimestamp ??= timestamp(context.store.now());
  return copy;
}

const kept = [
  'uid',
  'creationTimestamp',
  'deletionTimestamp',
  'deletionGracePeriodSeconds',
  'generation',
  'generateName',
] as const;

/** Puts back what this path may not write: server fields, and either the status or everything but the status. */
function restore(resource: Resource, object: KubeObject, current: KubeObject, subresource: string): KubeObject {
  const metadata = { ...object.metadata } as Record<string, unknown>;
  for (const field of kept) {
    if (current.metadata[field] === undefined) delete metadata[field];
    else if (field !== 'uid' || metadata.uid === undefined) metadata[field] = current.metadata[field];
  }
  const result = { ...object, metadata } as unknown as KubeObject;
  if (resource.kind === 'Namespace') result.spec = subresource === 'finalize' ? object.spec : structuredClone(current.spec);
  if (!resource.hasStatus) return result;
  if (subresource === 'status') return { ...structuredClone(current), metadata: result.metadata, status: object.status };
  return current.status === undefined ? result : { ...result, status: structuredClone(current.status) };
}

function checkIdentity(target: Target, object: KubeObject, current: KubeObject): void {
  const { resource, name } = target;
  object.metadata.name ||= name;
  if (object.metadata.name !== name) {
    throw badRequest(`the name of the object (${object.metadata.name}) does not match the name on the URL (${name})`);
  }
  const version = object.metadata.resourceVersion;
  if (version && version !== current.metadata.resourceVersion) {
    throw conflict(resource, name, 'the object has been modified; please apply your changes to the latest version and try again');
  }
}

/** True when nothing keeps a deleted object any longer. */
const isReleased = (object: KubeObject): boolean =>
  object.metadata.deletionTimestamp !== undefined &&
  !object.metadata.finalizers?.length &&
  !object.spec?.finalizers?.length &&
  (object.metadata.deletionGracePeriodSeconds ?? 0) === 0;

function replaceWith(draft: KubeObject, object: KubeObject): void {
  for (const key of Object.keys(draft)) if (!(key in object)) delete draft[key];
  Object.assign(draft, object);
}

/**
 * One write of an existing object: PUT and PATCH differ only in `change`. Nothing here awaits, so that what was read is
 * what is replaced.
 */
export function updateObject(
  context: ApiContext,
  target: Target,
  subresource: string,
  change: (current: KubeObject) => unknown,
  options: WriteOptions,
): KubeObject {
  const { store } = context;
  const { resource, namespace, name } = target;
  const current = store.get(resource.resource, namespace, name);
  if (!current) throw notFound(resource, name);
  let object = asObject(resource, namespace, change(structuredClone(current)));
  checkIdentity(target, object, current);
  if (options.mutations.length > 0) object = applyJsonPatch(object, options.mutations);
  object = restore(resource, object, current, subresource);
  if (subresource === '') {
    rejectBadQuantities(resource, object);
    applyDefaults(object);
    admitUpdate(object, current);
  }
  const errors = [...validateMetadataUpdate(object, current), ...validate(resource, object)];
  if (subresource === '' && errors.length === 0) errors.push(...validateUpdate(object, current));
  if (errors.length > 0) throw invalid(resource, name, errors);
  object.metadata.resourceVersion = current.metadata.resourceVersion;
  if (object.metadata.generation !== undefined && !isDeepStrictEqual(object.spec, structuredClone(current.spec))) {
    object.metadata.generation += 1;
  }
  if (options.dryRun) return object;
  if (isReleased(object)) {
    store.remove(resource.resource, namespace, name);
    return object;
  }
  return store.update(resource.resource, namespace, name, (draft) => replaceWith(draft, object)) ?? object;
}
