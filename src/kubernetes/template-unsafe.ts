import type { V1Container, V1PodTemplate } from '@kubernetes/client-node';
import type { ProfileConfig } from '../config/schema.ts';
import type { Issue } from '../errors.ts';

type UnsafeName = ProfileConfig['allowUnsafe'][number];

interface Use {
  readonly name: UnsafeName;
  readonly path: string;
}

/** Uses of fields that let a workspace out of its container and that `allowUnsafe` does not list. */
export function findUnsafe(
  template: V1PodTemplate,
  rules: { readonly allowUnsafe?: readonly UnsafeName[] },
  path: string,
): Issue[] {
  return usesOf(template, path)
    .filter((use) => !rules.allowUnsafe?.includes(use.name))
    .map((use) => ({ path: use.path, message: `is unsafe: list ${use.name} in allowUnsafe if the workspace really needs it` }));
}

/** The same for what is listed: never silent. */
export function unsafeWarnings(
  template: V1PodTemplate,
  rules: { readonly allowUnsafe?: readonly UnsafeName[] },
  path: string,
): Issue[] {
  return usesOf(template, path)
    .filter((use) => rules.allowUnsafe?.includes(use.name))
    .map((use) => ({ path: use.path, message: `is unsafe and allowed by allowUnsafe (${use.name})` }));
}

function usesOf(template: V1PodTemplate, root: string): Use[] {
  const spec = template.template?.spec;
  if (!spec) return [];
  const path = `${root}.template.spec`;
  const uses: Use[] = [];
  for (const name of ['hostNetwork', 'hostPID', 'hostIPC', 'automountServiceAccountToken'] as const)
    if (spec[name] === true) uses.push({ name, path: `${path}.${name}` });
  spec.volumes?.forEach((volume, index) => {
    if (volume.hostPath !== undefined) uses.push({ name: 'hostPath', path: `${path}.volumes[${index}].hostPath` });
    volume.projected?.sources?.forEach((source, at) => {
      // A projected token is the same credential by another way.
      if (source.serviceAccountToken !== undefined)
        uses.push({
          name: 'automountServiceAccountToken',
          path: `${path}.volumes[${index}].projected.sources[${at}].serviceAccountToken`,
        });
    });
  });
  uses.push(...unconfined(spec.securityContext, `${path}.securityContext`));
  for (const kind of ['initContainers', 'containers'] as const)
    spec[kind]?.forEach((container, index) => {
      uses.push(...usesOfContainer(container, `${path}.${kind}[${index}]`));
    });
  return uses;
}

function usesOfContainer(container: V1Container, path: string): Use[] {
  const uses: Use[] = [];
  const context = container.securityContext;
  if (context?.privileged === true) uses.push({ name: 'privileged', path: `${path}.securityContext.privileged` });
  if ((context?.capabilities?.add?.length ?? 0) > 0)
    uses.push({ name: 'capabilities', path: `${path}.securityContext.capabilities.add` });
  if (context?.procMount !== undefined && context.procMount !== 'Default')
    uses.push({ name: 'privileged', path: `${path}.securityContext.procMount` });
  uses.push(...unconfined(context, `${path}.securityContext`));
  container.ports?.forEach((port, index) => {
    if (port.hostPort !== undefined && port.hostPort !== 0)
      uses.push({ name: 'hostPort', path: `${path}.ports[${index}].hostPort` });
  });
  return uses;
}

/** Without a system call filter or profile a container is nearly privileged, so that it takes the same word. */
function unconfined(context: V1Container['securityContext'], path: string): Use[] {
  const uses: Use[] = [];
  for (const profile of ['seccompProfile', 'appArmorProfile'] as const)
    if (context?.[profile]?.type === 'Unconfined') uses.push({ name: 'privileged', path: `${path}.${profile}.type` });
  if (context?.windowsOptions?.hostProcess === true)
    uses.push({ name: 'privileged', path: `${path}.windowsOptions.hostProcess` });
  return uses;
}
