import { type ClusterStore, timestamp } from '../store.ts';
import type { KubeObject } from '../types.ts';
import { unsupported } from './field-errors.ts';
import type { Resource } from './resources.ts';
import { badRequest, forbidden, invalid, notFound, preconditionFailed } from './status.ts';
import type { Target } from './write.ts';

export type Propagation = 'Foreground' | 'Background' | 'Orphan';

export interface DeleteOptions {
  readonly gracePeriodSeconds?: number;
  readonly propagationPolicy?: Propagation;
  readonly preconditions?: { readonly uid?: string; readonly resourceVersion?: string };
  readonly dryRun?: boolean;
}

const policies = ['Foreground', 'Background', 'Orphan'];
const optionsKind = { resource: 'deleteoptions', kind: 'DeleteOptions', group: 'meta.k8s.io' };

/** From the body, or from the query where the body says nothing. */
export function parseDeleteOptions(body: unknown, query: URLSearchParams): DeleteOptions {
  if (body !== undefined && (typeof body !== 'object' || body === null))
    throw badRequest('the body of a delete must be DeleteOptions');
  const given = (body ?? {}) as Record<string, unknown>;
  const grace = given.gracePeriodSeconds ?? query.get('gracePeriodSeconds') ?? undefined;
  const policy =
    given.propagationPolicy ?? query.get('propagationPolicy') ?? (given.orphanDependents === true ? 'Orphan' : undefined);
  const dryRun = (given.dryRun as string[] | undefined) ?? query.getAll('dryRun');
  if (grace !== undefined && !Number.isInteger(Number(grace))) {
    throw badRequest(`strconv.ParseInt: parsing "${grace}": invalid syntax`);
  }
  if (policy !== undefined && !policies.includes(String(policy))) {
    throw invalid(optionsKind, '', [unsupported('propagationPolicy', policy, [...policies, 'nil'])]);
  }
  if (dryRun.some((value) => value !== 'All')) throw invalid(optionsKind, '', [unsupported('dryRun', dryRun, ['All'])]);
  const preconditions = given.preconditions as DeleteOptions['preconditions'];
  return {
    ...(grace === undefined ? {} : { gracePeriodSeconds: Number(grace) }),
    ...(policy === undefined ? {} : { propagationPolicy: policy as Propagation }),
    ...(preconditions ? { preconditions } : {}),
    dryRun: dryRun.length > 0,
  };
}

function checkPreconditions(target: Target, current: KubeObject, { preconditions }: DeleteOptions): void {
  const { resource, name } = target;
  const { uid, resourceVersion } = current.metadata;
  if (preconditions?.uid !== undefined && preconditions.uid !== uid) {
    const why = `the UID in the precondition (${preconditions.uid}) does not match the UID in record (${uid}). The object might have been deleted and then recreated`;
    throw preconditionFailed(resource, name, why);
  }
  if (preconditions?.resourceVersion !== undefined && preconditions.resourceVersion !== resourceVersion) {
    const why = `the ResourceVersion in the precondition (${preconditions.resourceVersion}) does not match the ResourceVersion in record (${resourceVersion}). The object might have been modified`;
    throw preconditionFailed(resource, name, why);
  }
}

/** Seconds a Pod has to end; 0 where no process can be running. */
function graceOf(resource: Resource, object: KubeObject, options: DeleteOptions): number {
  if (resource.kind !== 'Pod') return 0;
  if (!object.spec?.nodeName || ['Failed', 'Succeeded'].includes(object.status?.phase)) return 0;
  const asked = options.gracePeriodSeconds ?? object.spec.terminationGracePeriodSeconds ?? 30;
  return asked < 0 ? 1 : asked;
}

function markDeleted(store: ClusterStore, draft: KubeObject, resource: Resource, grace: number, options: DeleteOptions): void {
  const { metadata } = draft;
  const had = metadata.deletionTimestamp ? (metadata.deletionGracePeriodSeconds ?? 0) : undefined;
  const finalizers = new Set(metadata.finalizers ?? []);
  if (options.propagationPolicy === 'Foreground') finalizers.add('foregroundDeletion');
  if (options.propagationPolicy === 'Orphan') finalizers.add('orphan');
  if (finalizers.size > 0) metadata.finalizers = [...finalizers];
  if (resource.kind === 'Namespace') {
    metadata.deletionTimestamp ??= timestamp(store.now());
    draft.status = { ...draft.status, phase: 'Terminating' };
    return;
  }
  // A second delete can only shorten the time, and only when it names one.
  if (had !== undefined && (options.gracePeriodSeconds === undefined || grace >= had)) return;
  const requested = had === undefined ? store.now() : Date.parse(metadata.deletionTimestamp!) - had * 1000;
  metadata.deletionTimestamp = timestamp(requested + grace * 1000);
  metadata.deletionGracePeriodSeconds = grace;
  if (metadata.generation !== undefined && had === undefined) metadata.generation += 1;
}

/** As on a real cluster, these stay. */
const lasting = new Set(['default', 'kube-system', 'kube-public']);

const isHeld = (object: KubeObject): boolean => Boolean(object.metadata.finalizers?.length || object.spec?.finalizers?.length);

/**
 * Deletes as the server does: finalizers and grace periods keep the object, marked, until they are done. Returns its
 * last state and whether it is gone.
 */
export function deleteObject(store: ClusterStore, target: Target, options: DeleteOptions): { object: KubeObject; gone: boolean } {
  const { resource, namespace, name } = target;
  const current = store.get(resource.resource, namespace, name);
  if (!current) throw notFound(resource, name);
  checkPreconditions(target, current, options);
  if (resource.kind === 'Namespace' && lasting.has(name)) throw forbidden(resource, name, 'this namespace may not be deleted');
  const grace = graceOf(resource, current, options);
  const draft = structuredClone(current);
  markDeleted(store, draft, resource, grace, options);
  const gone = !isHeld(draft) && (draft.metadata.deletionGracePeriodSeconds ?? 0) === 0;
  if (options.dryRun) return { object: draft, gone };
  if (gone) {
    store.remove(resource.resource, namespace, name);
    // Only kinds with a grace period answer with the marks of deletion.
    return { object: resource.kind === 'Pod' ? draft : current, gone };
  }
  const marked = store.update(resource.resource, namespace, name, (object) => {
    object.metadata = draft.metadata;
    if (resource.kind === 'Namespace') object.status = draft.status;
  });
  return { object: marked ?? draft, gone };
}
