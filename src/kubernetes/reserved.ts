import { agentPort, podPaths } from '../agent/protocol.ts';

/** What Windlass owns inside a Pod. Templates may not name it, composing sets it, admission must not have touched it. */
export const volumes = {
  opt: 'windlass-opt',
  run: 'windlass-run',
  agent: 'windlass-agent',
  workspace: 'windlass-workspace',
} as const;

export const reservedVolumes: readonly string[] = Object.values(volumes);

export const reservedPort = { number: agentPort, name: 'windlass-agent' } as const;

/** Labels of the Pod that say what it is. */
const reservedLabels: readonly string[] = ['name', 'component', 'instance', 'managed-by'].map(
  (name) => `app.kubernetes.io/${name}`,
);

/** Node selection by these keys is ours: it follows `platform`. */
export const platformKeys: readonly string[] = ['kubernetes.io/os', 'kubernetes.io/arch'];

export function isReservedLabel(key: string): boolean {
  return reservedLabels.includes(key) || isOwnKey(key);
}

/** Any key of our domain, except the part that is open to callers. */
export function isOwnKey(key: string): boolean {
  const domain = key.split('/')[0] ?? '';
  return key.includes('/') && (domain === 'windlass.dev' || (domain.endsWith('.windlass.dev') && domain !== 'user.windlass.dev'));
}

export function isReservedEnv(name: string): boolean {
  return name === 'HOME' || name.startsWith('WINDLASS_');
}

/** At or below one of our mounts. Above is fine: runtimes mount outer paths first. */
export function isReservedPath(path: string): boolean {
  const clean = normalize(path);
  return Object.values(podPaths).some((own) => clean === own || clean.startsWith(`${own}/`));
}

function normalize(path: string): string {
  const parts: string[] = [];
  for (const part of path.split('/')) {
    if (part === '' || part === '.') continue;
    if (part === '..') parts.pop();
    else parts.push(part);
  }
  return `/${parts.join('/')}`;
}
