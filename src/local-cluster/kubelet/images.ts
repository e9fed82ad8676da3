import { createHash } from 'node:crypto';

/** What a container's image stands for here. */
export type Image =
  | { readonly kind: 'toolbox'; readonly toolbox: Toolbox; readonly id: string; readonly fullName: string }
  | { readonly kind: 'fault'; readonly fault: Fault; readonly id: string; readonly fullName: string }
  /** A good reference that no registry of ours has. */
  | { readonly kind: 'unknown'; readonly fullName: string }
  | { readonly kind: 'invalid'; readonly message: string };

export interface Toolbox {
  readonly name: string;
  /** Used when the container names no command. */
  readonly entry: readonly string[];
  /** A folder whose content is the image, over the system's tools. */
  readonly folder?: string;
}

/** What an image of `fault.local/` acts out; `value` is its number: an exit code or seconds. */
export interface Fault {
  readonly kind: (typeof faultKinds)[number];
  readonly value: number;
}

const faultKinds = [
  'err-image-pull',
  'image-pull-backoff',
  'pull-rate-limited',
  'invalid-image-name',
  'create-config-error',
  'oom',
  'crash',
  'exit',
  'never-start',
  'slow-start',
  'slow-pull',
  'evicted',
  'preempted',
  'node-lost',
  'stuck-terminating',
] as const;

const shellImages = new Set(['busybox', 'alpine', 'debian', 'ubuntu']);
const domain =
  /^(?:[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?(?:\.[a-zA-Z0-9](?:[a-zA-Z0-9-]*[a-zA-Z0-9])?)*|\[[a-fA-F0-9:]+\])(?::\d+)?$/;
const pathComponent = /^[a-z0-9]+(?:(?:\.|_|__|-+)[a-z0-9]+)*$/;
const tagForm = /^\w[\w.-]{0,127}$/;
const digestForm = /^[A-Za-z][A-Za-z0-9]*(?:[-_+.][A-Za-z][A-Za-z0-9]*)*:[0-9a-fA-F]{32,}$/;

export interface Reference {
  readonly domain: string;
  readonly path: string;
  readonly tag: string | undefined;
  readonly digest: string | undefined;
}

/** Parses an OCI reference as container runtimes do (docker.io and library/ filled in). The error is the runtime's reason. */
export function parseReference(image: string): Reference | { readonly error: string } {
  const [beforeDigest = '', digest, ...more] = image.split('@');
  if (more.length > 0 || (digest !== undefined && !digestForm.test(digest))) return { error: 'invalid reference format' };
  const slash = beforeDigest.lastIndexOf('/');
  const colon = beforeDigest.indexOf(':', slash + 1);
  const name = colon < 0 ? beforeDigest : beforeDigest.slice(0, colon);
  const tag = colon < 0 ? undefined : beforeDigest.slice(colon + 1);
  if (tag !== undefined && !tagForm.test(tag)) return { error: 'invalid reference format' };
  const first = name.split('/', 1)[0] as string;
  const hasDomain = name.includes('/') && (/[.:]/.test(first) || first === 'localhost' || first !== first.toLowerCase());
  const host = hasDomain ? first : 'docker.io';
  const rest = hasDomain ? name.slice(first.length + 1) : name;
  const path = host === 'docker.io' && !rest.includes('/') ? `library/${rest}` : rest;
  if (!domain.test(host)) return { error: 'invalid reference format' };
  if (path !== path.toLowerCase()) return { error: `invalid reference format: repository name (${path}) must be lowercase` };
  if (path.length > 255 || !path.split('/').every((part) => pathComponent.test(part)))
    return { error: 'invalid reference format' };
  return { domain: host, path, tag, digest };
}

/** Says what an image is. `images` are the operator's own: name (or whole path) → folder. */
export function resolveImage(image: string, images: Readonly<Record<string, string>>): Image {
  const reference = parseReference(image);
  if ('error' in reference) {
    const message = `Failed to apply default image tag "${image}": couldn't parse image name "${image}": ${reference.error}`;
    return { kind: 'invalid', message };
  }
  const { path, tag, digest } = reference;
  const fullName = `${reference.domain}/${path}${digest === undefined ? `:${tag ?? 'latest'}` : `@${digest}`}`;
  const id = digest ?? `sha256:${createHash('sha256').update(fullName).digest('hex')}`;
  if (reference.domain === 'fault.local') {
    const fault = parseFault(path);
    return fault === undefined ? { kind: 'unknown', fullName } : { kind: 'fault', fault, id, fullName };
  }
  const name = path.slice(path.lastIndexOf('/') + 1);
  const folder = images[image] ?? images[path] ?? images[name];
  if (folder !== undefined) return { kind: 'toolbox', toolbox: { name, entry: ['sh'], folder }, id, fullName };
  if (name === 'node') return { kind: 'toolbox', toolbox: { name, entry: ['node'] }, id, fullName };
  if (shellImages.has(name)) return { kind: 'toolbox', toolbox: { name, entry: ['sh'] }, id, fullName };
  return { kind: 'unknown', fullName };
}

/** `exit-3` → {exit, 3}; undefined when there is no such act. */
function parseFault(path: string): Fault | undefined {
  const whole = faultKinds.find((kind) => kind === path);
  if (whole !== undefined && !['exit', 'slow-start', 'slow-pull'].includes(whole)) return { kind: whole, value: 0 };
  const match = /^(exit|slow-start|slow-pull)-(\d{1,5})$/.exec(path);
  return match === null ? undefined : { kind: match[1] as Fault['kind'], value: Number(match[2]) };
}

/** What pulling an image that is not there is answered with. */
export function pullError(image: string, fullName: string, rateLimited: boolean): string {
  const failed = `failed to pull and unpack image "${fullName}"`;
  return rateLimited
    ? `${failed}: failed to copy: httpReadSeeker: failed open: unexpected status code 429 Too Many Requests - Server message: toomanyrequests: You have reached your unauthenticated pull rate limit.`
    : `rpc error: code = NotFound desc = ${failed}: failed to resolve reference "${fullName}": ${image}: not found`;
}
