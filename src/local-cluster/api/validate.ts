import type { KubeObject } from '../types.ts';
import { duplicate, invalidValue, required, tooLong, unsupported } from './field-errors.ts';
import { dataKey, dataKeyText } from './names.ts';
import { parseQuantity } from './quantity.ts';
import type { Resource } from './resources.ts';
import { badRequest, type FieldError } from './status.ts';
import { validateMetadata } from './validate-metadata.ts';
import { validatePod } from './validate-pod.ts';

/** Unreadable types are 400 on the real server too: they fail at decoding, before validation. */
export function checkShape(resource: Resource, object: KubeObject): void {
  const cannot = (why: string) =>
    badRequest(`${resource.kind} in version "${resource.version}" cannot be handled as a ${resource.kind}: ${why}`);
  const stringMaps: [string, unknown][] = [
    ['ObjectMeta.metadata.labels', object.metadata.labels],
    ['ObjectMeta.metadata.annotations', object.metadata.annotations],
  ];
  if (resource.kind === 'ConfigMap' || resource.kind === 'Secret') stringMaps.push([`${resource.kind}.data`, object.data]);
  for (const [field, map] of stringMaps) {
    if (map === undefined || map === null) continue;
    if (typeof map !== 'object' || Array.isArray(map))
      throw cannot(`json: cannot unmarshal into Go struct field ${field} of type map[string]string`);
    const wrong = Object.values(map).find((value) => typeof value !== 'string');
    const type = typeof wrong === 'boolean' ? 'bool' : Array.isArray(wrong) ? 'array' : typeof wrong;
    if (wrong !== undefined && wrong !== null)
      throw cannot(`json: cannot unmarshal ${type} into Go struct field ${field} of type string`);
  }
  if (object.spec !== undefined && object.spec !== null && (typeof object.spec !== 'object' || Array.isArray(object.spec))) {
    throw cannot(`json: cannot unmarshal ${typeof object.spec} into Go struct field ${resource.kind}.spec`);
  }
  if (resource.kind === 'Secret') {
    const bad = Object.values(object.data ?? {}).some(
      (value) => !/^(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?$/.test(String(value)),
    );
    if (bad) throw cannot('illegal base64 data at input byte 0');
  }
}

function validateData(object: KubeObject): FieldError[] {
  const errors: FieldError[] = [];
  let size = 0;
  for (const part of ['data', 'binaryData']) {
    for (const [key, value] of Object.entries(object[part] ?? {})) {
      size += object.kind === 'Secret' ? Buffer.byteLength(String(value), 'base64') : Buffer.byteLength(String(value));
      if (!dataKey.test(key)) errors.push(invalidValue(`${part}[${key}]`, key, dataKeyText));
      if (part === 'binaryData' && object.data && key in object.data) {
        errors.push(invalidValue(`data[${key}]`, key, 'duplicate of key present in binaryData'));
      }
    }
  }
  if (size > 1_048_576) errors.push(tooLong(object.kind === 'Secret' ? 'data' : '[]', 1_048_576));
  return errors;
}

const accessModes = ['ReadOnlyMany', 'ReadWriteMany', 'ReadWriteOnce', 'ReadWriteOncePod'];

function validateClaim({ spec }: KubeObject): FieldError[] {
  const errors: FieldError[] = [];
  const modes: unknown[] = Array.isArray(spec?.accessModes) ? spec.accessModes : [];
  if (modes.length === 0) errors.push(required('spec.accessModes', 'at least 1 access mode is required'));
  for (const mode of modes)
    if (!accessModes.includes(String(mode))) errors.push(unsupported('spec.accessModes', mode, accessModes));
  const storage = spec?.resources?.requests?.storage;
  if (storage === undefined) errors.push(required('spec.resources[storage]'));
  else if ((parseQuantity(storage) ?? 0n) <= 0n)
    errors.push(invalidValue('spec.resources[storage]', storage, 'must be greater than zero'));
  return errors;
}

function validateService({ spec }: KubeObject): FieldError[] {
  const errors: FieldError[] = [];
  const ports = Array.isArray(spec?.ports) ? spec.ports : [];
  if (ports.length === 0 && spec?.clusterIP !== 'None' && spec?.type !== 'ExternalName') errors.push(required('spec.ports'));
  const seen = new Set<string>();
  for (const [index, port] of ports.entries()) {
    const key = `${port.protocol}/${port.port}`;
    if (!(port.port >= 1 && port.port <= 65_535)) {
      errors.push(invalidValue(`spec.ports[${index}].port`, port.port ?? 0, 'must be between 1 and 65535, inclusive'));
    }
    if (ports.length > 1 && !port.name) errors.push(required(`spec.ports[${index}].name`));
    if (seen.has(key)) errors.push(duplicate(`spec.ports[${index}]`, port));
    seen.add(key);
  }
  return errors;
}

function validateQuotaSpec({ spec }: KubeObject): FieldError[] {
  return Object.entries(spec?.hard ?? {})
    .filter(([, value]) => parseQuantity(value) === undefined || parseQuantity(value)! < 0n)
    .map(([key, value]) => invalidValue(`spec.hard[${key}]`, value, 'must be greater than or equal to 0'));
}

const byKind: Readonly<Record<string, (object: KubeObject) => FieldError[]>> = {
  ConfigMap: validateData,
  Secret: validateData,
  PersistentVolumeClaim: validateClaim,
  Pod: validatePod,
  ResourceQuota: validateQuotaSpec,
  Service: validateService,
  StorageClass: (object) => (object.provisioner ? [] : [required('provisioner')]),
};

/** Every broken rule of a whole object, metadata first. */
export function validate(resource: Resource, object: KubeObject): FieldError[] {
  return [...validateMetadata(resource, object), ...(byKind[resource.kind]?.(object) ?? [])];
}
