import type {
  V1Container,
  V1EnvVar,
  V1ObjectMeta,
  V1PersistentVolumeClaim,
  V1Pod,
  V1PodSpec,
  V1PodTemplate,
  V1ResourceRequirements,
  V1Volume,
  V1VolumeMount,
} from '@kubernetes/client-node';
import { type AgentProgram, programVariable } from '../agent/boot.ts';
import { agentEnv, agentPort, podPaths } from '../agent/protocol.ts';
import { digestVariable } from '../agent/upload.ts';
import type { ProfileConfig } from '../config/schema.ts';
import { WindlassError } from '../errors.ts';
import { claimName, podName } from '../names.ts';
import { minQuantity } from '../quantity.ts';
import { type Identity, keys, ownedAnnotations, ownedLabels, specHash } from './ownership.ts';
import { reservedPort, volumes } from './reserved.ts';

/** All that an owned object is made of. Equal input gives an equal object: every attempt composes it anew. */
export interface ComposeInput {
  readonly identity: Identity;
  readonly namespace: string;
  readonly generation: number;
  readonly nonce: string;
  readonly profile: ProfileConfig;
  readonly template: V1PodTemplate;
  /** undefined = an empty directory. */
  readonly workspaceClaim: string | undefined;
  /** undefined = the image's own entry point (delivery none). */
  readonly agent:
    | {
        /** undefined = the agent comes by another way than the shared ConfigMap. */
        readonly configMapName: string | undefined;
        readonly program: AgentProgram;
        readonly bootLine: readonly string[];
      }
    | undefined;
  /** For the image's own entry point, in place of its usual arguments; only where there is no agent. */
  readonly command?: readonly string[];
  /** Something runs before the agent serves: a startup probe makes its end visible to the watch. */
  readonly prepares: boolean;
  readonly labels?: Readonly<Record<string, string>>;
  readonly annotations?: Readonly<Record<string, string>>;
  readonly resources?: {
    readonly requests?: Readonly<Record<string, string>> | undefined;
    readonly limits?: Readonly<Record<string, string>> | undefined;
  };
  readonly snapshotName?: string | undefined;
  /** JSON; kept on the object for whoever has to rebuild the record. */
  readonly lifetime?: string | undefined;
  /** Environment name → key of a Secret that the profile grants. */
  readonly secretRefs?: Readonly<Record<string, { readonly secret: string; readonly key: string }>>;
  /** Plain variables in the Pod spec; only where no agent could take them (delivery none). The template's own win. */
  readonly env?: Readonly<Record<string, string>>;
}

/** HOME and what the agent writes; on a memory volume it would otherwise take the node's memory. */
const runSizeLimit = '256Mi';
const optSizeLimit = '512Mi';
const defaultGraceSeconds = 10;

/** The Pod as it is sent. The template is not changed. */
export function composePod(input: ComposeInput): V1Pod {
  const source = structuredClone(input.template.template ?? {});
  const spec = composeSpec(input, source.spec ?? { containers: [] });
  const metadata = metaOf(input, podName(input.identity.hash), specHash({ spec }), source.metadata);
  metadata.labels = { ...metadata.labels, [keys.egress]: input.profile.egress };
  return { apiVersion: 'v1', kind: 'Pod', metadata, spec };
}

/** The claim of a managed workspace; throws `invariant_broken` for the other modes, which have none of ours. */
export function composeClaim(input: ComposeInput): V1PersistentVolumeClaim {
  const { workspace } = input.profile;
  if (workspace.mode !== 'managed_pvc')
    throw new WindlassError('invariant_broken', `A workspace of mode ${workspace.mode} has no claim of ours.`);
  const spec = {
    accessModes: [...workspace.accessModes],
    volumeMode: 'Filesystem',
    resources: { requests: { storage: workspace.size } },
    // Left out, not '': an empty class would mean "no class" instead of the cluster's default.
    ...(workspace.storageClass === '' ? {} : { storageClassName: workspace.storageClass }),
  };
  const metadata = metaOf(input, claimName(input.identity.hash), specHash({ spec }), undefined);
  return { apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata, spec };
}

/** Ours last: neither template nor caller can set what says whose an object is. */
function metaOf(input: ComposeInput, name: string, hash: string, template: V1ObjectMeta | undefined): V1ObjectMeta {
  const marks = {
    nonce: input.nonce,
    generation: input.generation,
    specHash: hash,
    snapshot: input.snapshotName,
    lifetime: input.lifetime,
  };
  return {
    name,
    namespace: input.namespace,
    labels: { ...template?.labels, ...input.labels, ...ownedLabels(input.identity) },
    annotations: { ...template?.annotations, ...input.annotations, ...ownedAnnotations({ ...input.identity, ...marks }) },
  };
}

function composeSpec(input: ComposeInput, template: V1PodSpec): V1PodSpec {
  const [os = 'linux', arch = 'amd64'] = input.profile.platform.split('/');
  const main = template.containers.find((container) => container.name === input.profile.mainContainer);
  if (!main) throw new WindlassError('invariant_broken', `The template has no container "${input.profile.mainContainer}".`);
  const copier = runtimeCopier(input, main);
  return {
    ...template,
    // Without an agent the image's program is the instance: its end is the result, not a reason to start it again.
    restartPolicy: input.agent ? 'Always' : 'Never',
    os: { name: os },
    nodeSelector: { ...template.nodeSelector, 'kubernetes.io/os': os, 'kubernetes.io/arch': arch },
    automountServiceAccountToken: template.automountServiceAccountToken ?? false,
    // A Service named windlass would inject WINDLASS_PORT and the like into the agent's environment.
    enableServiceLinks: false,
    terminationGracePeriodSeconds: template.terminationGracePeriodSeconds ?? defaultGraceSeconds,
    ...(copier ? { initContainers: [copier, ...(template.initContainers ?? [])] } : {}),
    containers: template.containers.map((container) => (container === main ? composeMain(input, main) : container)),
    volumes: [...(template.volumes ?? []), ...ownedVolumes(input)],
  };
}

function composeMain(input: ComposeInput, main: V1Container): V1Container {
  const resources = composeResources(main.resources, input.resources);
  const env = [...(main.env ?? []), ...plainEnv(input.env, main.env), ...secretEnv(input.secretRefs)];
  const common: V1Container = {
    ...main,
    ...(Object.keys(resources).length === 0 ? {} : { resources }),
    ...(env.length === 0 ? {} : { env }),
    terminationMessagePolicy: 'FallbackToLogsOnError',
    volumeMounts: [...(main.volumeMounts ?? []), ...ownedMounts(input)],
  };
  if (!input.agent) return input.command === undefined ? common : { ...common, args: [...input.command] };
  const { args: _args, ...rest } = common;
  return {
    ...rest,
    command: [...input.agent.bootLine],
    workingDir: podPaths.workspace,
    env: [...env, ...agentVariables(input.profile), ...programVariables(input.agent.program)],
    ports: [...(main.ports ?? []), { name: reservedPort.name, containerPort: reservedPort.number, protocol: 'TCP' }],
    ...(input.prepares ? { startupProbe: preparedProbe(input.profile) } : {}),
  };
}

/** The request's over the template's. What the template requests gives way to a lower limit of the request's. */
function composeResources(own: V1ResourceRequirements = {}, wanted: ComposeInput['resources'] = {}): V1ResourceRequirements {
  const least = Object.entries(own.requests ?? {}).map(([name, quantity]) => [
    name,
    minQuantity(quantity, wanted.limits?.[name] ?? quantity),
  ]);
  const requests = { ...Object.fromEntries(least), ...wanted.requests };
  return {
    ...own,
    ...(own.requests || wanted.requests ? { requests } : {}),
    ...(wanted.limits ? { limits: { ...own.limits, ...wanted.limits } } : {}),
  };
}

function plainEnv(env: Readonly<Record<string, string>> = {}, own: readonly V1EnvVar[] = []): V1EnvVar[] {
  return sorted(env)
    .filter(([name]) => !own.some((variable) => variable.name === name))
    .map(([name, value]) => ({ name, value }));
}

function secretEnv(refs: NonNullable<ComposeInput['secretRefs']> = {}): V1EnvVar[] {
  return sorted(refs).map(([name, ref]) => ({ name, valueFrom: { secretKeyRef: { name: ref.secret, key: ref.key } } }));
}

/** The order of keys in a request must not change the spec hash. */
function sorted<T>(map: Readonly<Record<string, T>>): [string, T][] {
  return Object.entries(map).sort(([a], [b]) => (a < b ? -1 : 1));
}

const loopback = { value: '127.0.0.1' };

/** Where things are, for the entry script and the agent; in path mode the local cluster rewrites the values. */
function agentVariables({ handshake }: ProfileConfig): V1EnvVar[] {
  // Loopback, except where the operator named pod_ip: the agent then serves on the cluster's network.
  const host = handshake === 'pod_ip' ? { valueFrom: { fieldRef: { apiVersion: 'v1', fieldPath: 'status.podIP' } } } : loopback;
  return [
    { name: agentEnv.optDir, value: podPaths.opt },
    { name: agentEnv.runDir, value: podPaths.run },
    { name: 'WINDLASS_AGENT_DIR', value: podPaths.agent },
    { name: agentEnv.workspace, value: podPaths.workspace },
    { name: agentEnv.host, ...host },
    { name: agentEnv.port, value: String(agentPort) },
    { name: 'HOME', value: `${podPaths.run}/home` },
  ];
}

/** Only what differs from the ConfigMap's: every other command in the container finds the program by it. */
function programVariables({ path, uploaded, sha256 }: AgentProgram): V1EnvVar[] {
  return [
    ...(path === undefined ? [] : [{ name: programVariable, value: path }]),
    ...(uploaded && sha256 !== undefined ? [{ name: digestVariable, value: sha256 }] : []),
  ];
}

/** Fails until prepare has left its mark. It must outlast every budget: when it gives up, the kubelet kills the container. */
function preparedProbe(profile: ProfileConfig) {
  const { start, bootstrap, total } = profile.budgets;
  return {
    exec: { command: ['sh', '-c', `test -f "$${agentEnv.runDir}/prepared"`] },
    periodSeconds: 1,
    timeoutSeconds: 5,
    failureThreshold: Math.max(start + bootstrap, total, 60) + 60,
  };
}

function ownedMounts(input: ComposeInput): V1VolumeMount[] {
  const workspace = { name: volumes.workspace, mountPath: podPaths.workspace };
  if (!input.agent) return [workspace];
  return [
    { name: volumes.opt, mountPath: podPaths.opt },
    ...(input.agent.configMapName === undefined ? [] : [{ name: volumes.agent, mountPath: podPaths.agent, readOnly: true }]),
    { name: volumes.run, mountPath: podPaths.run },
    workspace,
  ];
}

function ownedVolumes(input: ComposeInput): V1Volume[] {
  const { workspace } = input.profile;
  const sizeLimit = workspace.mode === 'empty_dir' ? workspace.sizeLimit : undefined;
  const place: V1Volume = input.workspaceClaim
    ? { name: volumes.workspace, persistentVolumeClaim: { claimName: input.workspaceClaim } }
    : { name: volumes.workspace, emptyDir: sizeLimit === undefined ? {} : { sizeLimit } };
  if (!input.agent) return [place];
  return [
    { name: volumes.opt, emptyDir: { sizeLimit: optSizeLimit } },
    ...agentVolume(input.agent.configMapName),
    { name: volumes.run, emptyDir: { medium: 'Memory', sizeLimit: runSizeLimit } },
    place,
  ];
}

const agentVolume = (name: string | undefined): V1Volume[] =>
  name === undefined ? [] : [{ name: volumes.agent, configMap: { name } }];

/** Backquotes, since Kubernetes reads $( ) in a command as a reference to a variable. Renamed last: never half there. */
const copy = (program: string, folder: string, name: string): string =>
  [
    'set -e',
    `to="$WINDLASS_OPT_DIR${folder}"`,
    'mkdir -p "$to"',
    `cp -f "\`command -v ${program}\`" "$to/${name}.tmp"`,
    `mv -f "$to/${name}.tmp" "$to/${name}"`,
  ].join('\n');
const copyNode = copy('node', '/bin', 'node');
const copyAgentctl = copy('agentctl', '', 'agent');

/**
 * Delivery init_image: an image that has Node gives its runtime to one that has none, while the agent itself still comes from
 * the ConfigMap; an image that has agentctl gives that. It runs under the main container's constraints, which are what the namespace's policy accepts.
 */
function runtimeCopier(input: ComposeInput, main: V1Container): V1Container | undefined {
  const { delivery, image, protocol } = input.profile.agent;
  if (!input.agent || delivery !== 'init_image') return undefined;
  if (!image) throw new WindlassError('invariant_broken', 'Delivery init_image without agent.image.');
  return {
    name: 'windlass-runtime',
    image,
    command: ['sh', '-c', protocol === 'agentctl' ? copyAgentctl : copyNode],
    env: [{ name: agentEnv.optDir, value: podPaths.opt }],
    volumeMounts: [{ name: volumes.opt, mountPath: podPaths.opt }],
    ...(main.securityContext ? { securityContext: main.securityContext } : {}),
    ...(main.resources ? { resources: main.resources } : {}),
    ...(main.imagePullPolicy ? { imagePullPolicy: main.imagePullPolicy } : {}),
    terminationMessagePolicy: 'FallbackToLogsOnError',
  };
}
