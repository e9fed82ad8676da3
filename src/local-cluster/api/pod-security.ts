import type { ClusterStore } from '../store.ts';
import type { KubeObject } from '../types.ts';
import type { Resource } from './resources.ts';
import { forbidden } from './status.ts';

// biome-ignore lint/suspicious/noExplicitAny: parts of a validated Pod
type Part = any;

type Level = 'privileged' | 'baseline' | 'restricted';

const listNames = (names: readonly string[], noun: string): string =>
  `${noun}${names.length > 1 ? 's' : ''} ${names.map((name) => `"${name}"`).join(', ')}`;

const containersOf = (pod: KubeObject): Part[] => [...(pod.spec.initContainers ?? []), ...(pod.spec.containers ?? [])];

/** Containers for which the rule fails, by name. */
const failing = (pod: KubeObject, broken: (container: Part) => boolean): string[] =>
  containersOf(pod)
    .filter(broken)
    .map((container) => container.name);

const baselineCapabilities = new Set(
  'AUDIT_WRITE CHOWN DAC_OVERRIDE FOWNER FSETID KILL MKNOD NET_BIND_SERVICE SETFCAP SETGID SETPCAP SETUID SYS_CHROOT'.split(' '),
);

const addedCapabilities = (container: Part, allowed: ReadonlySet<string>): string[] =>
  (container.securityContext?.capabilities?.add ?? []).filter((name: string) => !allowed.has(name));

function baseline(pod: KubeObject, withCapabilities: boolean): string[] {
  const found: string[] = [];
  const shared = ['hostNetwork', 'hostPID', 'hostIPC'].filter((field) => pod.spec[field]);
  if (shared.length) found.push(`host namespaces (${shared.map((field) => `${field}=true`).join(', ')})`);
  const hostPorts = containersOf(pod).flatMap((container) =>
    (container.ports ?? []).filter((port: Part) => port.hostPort).map((port: Part) => [container.name, port.hostPort] as const),
  );
  if (hostPorts.length) {
    const ports = hostPorts.map(([, port]) => port).join(', ');
    const names = listNames([...new Set(hostPorts.map(([name]) => name))], 'container');
    found.push(`hostPort (${names} use${hostPorts.length > 1 ? '' : 's'} hostPort${hostPorts.length > 1 ? 's' : ''} ${ports})`);
  }
  const privileged = failing(pod, (container) => container.securityContext?.privileged === true);
  if (privileged.length)
    found.push(`privileged (${listNames(privileged, 'container')} must not set securityContext.privileged=true)`);
  const extra = failing(pod, (container) => addedCapabilities(container, baselineCapabilities).length > 0);
  if (withCapabilities && extra.length) {
    const added = containersOf(pod).flatMap((container) => addedCapabilities(container, baselineCapabilities));
    const names = added.map((name) => `"${name}"`).join(', ');
    found.push(
      `non-default capabilities (${listNames(extra, 'container')} must not include ${names} in securityContext.capabilities.add)`,
    );
  }
  const hostPaths = (pod.spec.volumes ?? []).filter((volume: Part) => volume.hostPath).map((volume: Part) => volume.name);
  if (withCapabilities && hostPaths.length) found.push(`hostPath volumes (${listNames(hostPaths, 'volume')})`);
  return found;
}

const restrictedVolumes = new Set(
  'name configMap csi downwardAPI emptyDir ephemeral persistentVolumeClaim projected secret image'.split(' '),
);

function restrictedVolumeTypes(pod: KubeObject): string[] {
  const bad = (pod.spec.volumes ?? []).flatMap((volume: Part) =>
    Object.keys(volume)
      .filter((type) => !restrictedVolumes.has(type))
      .map((type) => [volume.name, type] as const),
  );
  if (bad.length === 0) return [];
  const names = listNames(
    bad.map(([name]: readonly [string, string]) => name),
    'volume',
  );
  const types = [...new Set(bad.map(([, type]: readonly [string, string]) => `"${type}"`))];
  return [
    `restricted volume types (${names} use${bad.length > 1 ? '' : 's'} restricted volume type${types.length > 1 ? 's' : ''} ${types.join(', ')})`,
  ];
}

function capabilityRule(pod: KubeObject): string[] {
  const keeps = failing(pod, (container) => !container.securityContext?.capabilities?.drop?.includes('ALL'));
  const only = new Set(['NET_BIND_SERVICE']);
  const adds = failing(pod, (container) => addedCapabilities(container, only).length > 0);
  const parts: string[] = [];
  if (keeps.length) parts.push(`${listNames(keeps, 'container')} must set securityContext.capabilities.drop=["ALL"]`);
  if (adds.length) {
    const added = [...new Set(containersOf(pod).flatMap((container) => addedCapabilities(container, only)))].map(
      (name) => `"${name}"`,
    );
    parts.push(`${listNames(adds, 'container')} must not include ${added.join(', ')} in securityContext.capabilities.add`);
  }
  return parts.length ? [`unrestricted capabilities (${parts.join('; ')})`] : [];
}

const seccomp = new Set(['RuntimeDefault', 'Localhost']);

function restricted(pod: KubeObject): string[] {
  const found: string[] = [];
  const own = pod.spec.securityContext ?? {};
  const escalates = failing(pod, (container) => container.securityContext?.allowPrivilegeEscalation !== false);
  if (escalates.length) {
    found.push(
      `allowPrivilegeEscalation != false (${listNames(escalates, 'container')} must set securityContext.allowPrivilegeEscalation=false)`,
    );
  }
  found.push(...capabilityRule(pod), ...restrictedVolumeTypes(pod));
  const root = failing(pod, (container) => (container.securityContext?.runAsNonRoot ?? own.runAsNonRoot) !== true);
  if (root.length) {
    found.push(`runAsNonRoot != true (pod or ${listNames(root, 'container')} must set securityContext.runAsNonRoot=true)`);
  }
  const uid0 = failing(pod, (container) => container.securityContext?.runAsUser === 0);
  if (own.runAsUser === 0) found.push('runAsUser=0 (pod must not set runAsUser=0)');
  else if (uid0.length) found.push(`runAsUser=0 (${listNames(uid0, 'container')} must not set runAsUser=0)`);
  const profile = failing(
    pod,
    (container) => !seccomp.has((container.securityContext?.seccompProfile ?? own.seccompProfile)?.type),
  );
  if (profile.length) {
    found.push(
      `seccompProfile (pod or ${listNames(profile, 'container')} must set securityContext.seccompProfile.type to "RuntimeDefault" or "Localhost")`,
    );
  }
  return found;
}

function violations(level: string | undefined, pod: KubeObject): string[] {
  if (level === 'baseline') return baseline(pod, true);
  return level === 'restricted' ? [...baseline(pod, false), ...restricted(pod)] : [];
}

/** Pod Security admission by the namespace's labels: `enforce` refuses, `warn` warns. */
export function checkPodSecurity(store: ClusterStore, resource: Resource, pod: KubeObject, warn: (text: string) => void): void {
  const labels = store.get('namespaces', undefined, pod.metadata.namespace ?? '')?.metadata.labels ?? {};
  const level = (mode: string) => labels[`pod-security.kubernetes.io/${mode}`] as Level | undefined;
  const version = (mode: string) => labels[`pod-security.kubernetes.io/${mode}-version`] ?? 'latest';
  const text = (mode: string, found: readonly string[]) =>
    `violate${mode === 'warn' ? '' : 's'} PodSecurity "${level(mode)}:${version(mode)}": ${found.join(', ')}`;
  const enforced = violations(level('enforce'), pod);
  if (enforced.length) throw forbidden(resource, pod.metadata.name, text('enforce', enforced));
  const warned = violations(level('warn'), pod);
  if (warned.length) warn(`would ${text('warn', warned)}`);
}
