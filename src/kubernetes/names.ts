import { WindlassError } from '../errors.ts';

const label = /^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/;
const subdomain = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

/**
 * The name guard (I16). A DELETE whose name is '' or '.' is a delete of the whole collection, '..' of the namespace:
 * every name passes here before a URL is built from it, and a name that is none is our own bug, so nothing is sent.
 */
export function assertObjectName(name: unknown): asserts name is string {
  if (typeof name === 'string' && name.length <= 253 && subdomain.test(name)) return;
  throw new WindlassError('invariant_broken', `${JSON.stringify(name)} is no name of a Kubernetes object; nothing was sent.`);
}

/** Namespaces and containers: one DNS label. */
export function assertLabelName(what: string, name: unknown): asserts name is string {
  if (typeof name === 'string' && label.test(name)) return;
  throw new WindlassError('invariant_broken', `${JSON.stringify(name)} is no ${what} name; nothing was sent.`);
}

const uidPattern = /^[A-Za-z0-9-]{1,64}$/;

/** An empty UID precondition would be no precondition at all. */
export function assertUid(uid: unknown): asserts uid is string {
  if (typeof uid === 'string' && uidPattern.test(uid)) return;
  throw new WindlassError('invariant_broken', `${JSON.stringify(uid)} is no UID; nothing was sent.`);
}

export function assertPort(port: number): void {
  if (Number.isInteger(port) && port > 0 && port < 65536) return;
  throw new WindlassError('invariant_broken', `${port} is no port; nothing was sent.`);
}
