import type { KubeObject } from '../types.ts';
import { forbiddenField, invalidValue, required, tooLong } from './field-errors.ts';
import {
  dnsLabel,
  dnsLabelText,
  labelValue,
  labelValueText,
  namePart,
  namePartText,
  serviceLabel,
  serviceLabelText,
  subdomain,
  subdomainText,
} from './names.ts';
import type { Resource } from './resources.ts';
import type { FieldError } from './status.ts';

const standardFinalizers = new Set(['kubernetes', 'orphan', 'foregroundDeletion']);

function nameError(resource: Resource, name: string): FieldError | undefined {
  const asLabel = resource.kind === 'Namespace';
  const asService = resource.kind === 'Service';
  const [shape, text, limit] = asLabel
    ? ([dnsLabel, dnsLabelText, 63] as const)
    : asService
      ? ([serviceLabel, serviceLabelText, 63] as const)
      : ([subdomain, subdomainText, 253] as const);
  if (name.length > limit) return invalidValue('metadata.name', name, `must be no more than ${limit} characters`);
  return shape.test(name) ? undefined : invalidValue('metadata.name', name, text);
}

function qualifiedNameErrors(field: string, key: string): FieldError[] {
  const slash = key.lastIndexOf('/');
  const [prefix, name] = slash < 0 ? [undefined, key] : [key.slice(0, slash), key.slice(slash + 1)];
  const errors: FieldError[] = [];
  if (prefix === '') errors.push(invalidValue(field, key, 'prefix part must be non-empty'));
  else if (prefix !== undefined && !subdomain.test(prefix)) errors.push(invalidValue(field, key, `prefix part ${subdomainText}`));
  if (name.length > 63) errors.push(invalidValue(field, key, 'name part must be no more than 63 characters'));
  if (name === '') errors.push(invalidValue(field, key, 'name part must be non-empty'));
  if (!namePart.test(name)) errors.push(invalidValue(field, key, namePartText));
  return errors;
}

export function validateMetadata(resource: Resource, { metadata }: KubeObject): FieldError[] {
  const errors: FieldError[] = [];
  const name = nameError(resource, metadata.name);
  if (name) errors.push(name);
  for (const [key, value] of Object.entries(metadata.labels ?? {})) {
    errors.push(...qualifiedNameErrors('metadata.labels', key));
    if (value.length > 63) errors.push(invalidValue('metadata.labels', value, 'must be no more than 63 bytes'));
    else if (!labelValue.test(value)) errors.push(invalidValue('metadata.labels', value, labelValueText));
  }
  let size = 0;
  for (const [key, value] of Object.entries(metadata.annotations ?? {})) {
    errors.push(...qualifiedNameErrors('metadata.annotations', key.toLowerCase()));
    size += Buffer.byteLength(key) + Buffer.byteLength(value);
  }
  if (size > 262_144) errors.push(tooLong('metadata.annotations', 262_144));
  for (const [index, finalizer] of (metadata.finalizers ?? []).entries()) {
    const field = `metadata.finalizers[${index}]`;
    if (!finalizer.includes('/') && !standardFinalizers.has(finalizer)) {
      errors.push(invalidValue(field, finalizer, 'name is neither a standard finalizer name nor is it fully qualified'));
    }
  }
  for (const [index, owner] of (metadata.ownerReferences ?? []).entries()) {
    for (const key of ['apiVersion', 'kind', 'name', 'uid'] as const) {
      if (!owner[key]) errors.push(required(`metadata.ownerReferences[${index}].${key}`, 'must not be empty'));
    }
  }
  return errors;
}

/** New finalizers cannot be put on an object that is being deleted. */
export function validateMetadataUpdate(object: KubeObject, current: KubeObject): FieldError[] {
  const errors: FieldError[] = [];
  if (object.metadata.uid !== current.metadata.uid) {
    errors.push(invalidValue('metadata.uid', object.metadata.uid, 'field is immutable'));
  }
  const had = new Set(current.metadata.finalizers ?? []);
  const added = (object.metadata.finalizers ?? []).filter((finalizer) => !had.has(finalizer));
  if (current.metadata.deletionTimestamp && added.length > 0) {
    const names = added.map((name) => JSON.stringify(name)).join(', ');
    const why = `no new finalizers can be added if the object is being deleted, found new finalizers []string{${names}}`;
    errors.push(forbiddenField('metadata.finalizers', why));
  }
  return errors;
}
