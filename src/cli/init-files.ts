import type { KeySet } from './key-files.ts';
import { runtimeImage } from './shipped-profiles.ts';

/** The cluster that a new configuration is for. */
export interface Place {
  readonly kubeconfig: string;
  readonly context: string;
  readonly namespace: string;
  /** The local cluster of this machine: `windlass local-cluster` must run. */
  readonly embedded: boolean;
}

const platform = process.arch === 'arm64' ? 'linux/arm64' : 'linux/amd64';
/** A value in YAML, whatever characters it has: JSON is YAML. */
const value = (text: string): string =>
  /^[A-Za-z0-9_./@-]+$/.test(text) && !/^[\d.-]/.test(text) && !/^(true|false|null|yes|no|on|off)$/i.test(text)
    ? text
    : JSON.stringify(text);

export function configText(place: Place, keys: KeySet): string {
  const [sealing] = keys.config.sealing;
  const [atRest] = keys.config.atRest;
  return `# Windlass configuration. Every other setting has a default: \`windlass schema config\` lists them all.

# Separates installations that share a Redis or a namespace.
installation: local

redis:
  # Also rediss://, redis+sentinel://h1,h2/master and redis+cluster://h1,h2.
  url: redis://127.0.0.1:6379

clusters:
  default:
    authMode: kubeconfig
    # ${place.embedded ? 'Written by `windlass local-cluster`.' : 'The kubeconfig that was current when this file was made.'}
    kubeconfigPath: ${value(place.kubeconfig)}
    # The context in it; "" = its current one.
    context: ${value(place.context)}
    # Instances are made here. The namespace must exist; give Windlass one of its own before you rely on it.
    namespace: ${value(place.namespace)}

profiles:
  # A request names a profile: {"version": 1, "profile": "node"}
  node:
    # What the Pod is made from; the path is relative to this file.
    podTemplateFile: profiles/node.yaml
    # The container in it that the agent and commands run in.
    mainContainer: agent
    platform: ${platform}
    # A claim of its own for each instance.
    workspace:
      mode: managed_pvc
      size: 1Gi
  # An image that has no Node.js for the agent to run on: an init container copies one from agent.image.
  minimal:
    podTemplateFile: profiles/minimal.yaml
    mainContainer: agent
    platform: ${platform}
    workspace:
      mode: managed_pvc
      size: 1Gi
    agent:
      delivery: init_image
      image: ${runtimeImage}
  # Python, and a Node.js beside it for the agent.
  python:
    podTemplateFile: profiles/python.yaml
    mainContainer: agent
    platform: ${platform}
    workspace:
      mode: managed_pvc
      size: 1Gi
    agent:
      delivery: init_image
      image: ${runtimeImage}
  # The Pod of node, with a workspace that ends with it.
  scratch:
    podTemplateFile: profiles/node.yaml
    mainContainer: agent
    platform: ${platform}
    workspace:
      mode: empty_dir

secrets:
  # Producers seal secrets for this public key; only workers have the private one, in windlass.env.
  sealing:
    - id: ${sealing!.id}
      publicKey: ${JSON.stringify(sealing!.publicKey)}
      privateKeyEnv: ${sealing!.privateKeyEnv}
  # What workers keep in Redis is encrypted with this key, in windlass.env.
  atRest:
    - id: ${atRest!.id}
      keyEnv: ${atRest!.keyEnv}
`;
}
