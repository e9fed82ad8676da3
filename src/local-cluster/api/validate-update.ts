import { isDeepStrictEqual } from 'node:util';
import type { KubeObject } from '../types.ts';
import { forbiddenField, invalidValue } from './field-errors.ts';
import { parseQuantity } from './quantity.ts';
import type { FieldError } from './status.ts';
import { validatePodUpdate } from './validate-pod.ts';

function validateDataUpdate(object: KubeObject, current: KubeObject): FieldError[] {
  const errors: FieldError[] = [];
  if (object.kind === 'Secret' && object.type !== current.type)
    errors.push(invalidValue('type', object.type, 'field is immutable'));
  if (!current.immutable) return errors;
  const fixed = 'field is immutable when `immutable` is set';
  if (!object.immutable) errors.push(forbiddenField('immutable', fixed));
  for (const field of ['data', 'binaryData']) {
    if (!isDeepStrictEqual(object[field] ?? {}, current[field] ?? {})) errors.push(forbiddenField(field, fixed));
  }
  return errors;
}

/** Only a bound claim may grow, and only by its request. */
function validateClaimUpdate(claim: KubeObject, current: KubeObject): FieldError[] {
  const old = structuredClone(current.spec);
  const next = structuredClone(claim.spec ?? {});
  // The binder fills in the volume's name once.
  if (!old.volumeName && next.volumeName) delete next.volumeName;
  const bound = current.status?.phase === 'Bound';
  const storage = next.resources?.requests?.storage;
  const before = old.resources?.requests?.storage;
  if (bound && storage !== undefined) {
    if ((parseQuantity(storage) ?? 0n) < (parseQuantity(before) ?? 0n)) {
      return [forbiddenField('spec.resources.requests.storage', 'field can not be less than status.capacity')];
    }
    next.resources.requests.storage = before;
  }
  if (isDeepStrictEqual(next, old)) return [];
  const fixed = 'spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims';
  return [forbiddenField('spec', fixed)];
}

function validateClassUpdate(object: KubeObject, current: KubeObject): FieldError[] {
  const fields = ['parameters', 'provisioner', 'reclaimPolicy', 'volumeBindingMode'];
  return fields
    .filter((field) => !isDeepStrictEqual(object[field], current[field]))
    .map((field) => forbiddenField(field, `updates to ${field} are forbidden.`));
}

const byKind: Readonly<Record<string, (object: KubeObject, current: KubeObject) => FieldError[]>> = {
  ConfigMap: validateDataUpdate,
  Secret: validateDataUpdate,
  Pod: validatePodUpdate,
  PersistentVolumeClaim: validateClaimUpdate,
  StorageClass: validateClassUpdate,
};

/** What may not change on an object that exists. */
export const validateUpdate = (object: KubeObject, current: KubeObject): FieldError[] =>
  byKind[object.kind]?.(object, current) ?? [];
