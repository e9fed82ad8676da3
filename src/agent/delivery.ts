import { readFileSync } from 'node:fs';
import { WindlassError } from '../errors.ts';
import { canonicalJson, sha256 } from '../names.ts';
import { podPaths } from './protocol.ts';

/** What one exec brings into the Pod. Everything in it may be secret. */
export interface BootstrapInput {
  /** For everything the agent starts; kept on the Pod's disk. */
  readonly runtimeEnv: Readonly<Record<string, string>>;
  /** The same, kept on the memory volume only. */
  readonly authEnv: Readonly<Record<string, string>>;
  /** Variables (of either map, or of the container) whose values are hidden in captured output. */
  readonly secretNames: readonly string[];
  /** Shell script, run once per workspace and content. */
  readonly prepare?: string;
  /** The handshake's nonce. */
  readonly nonce: string;
}

let bundle: { text: string; sha256: string } | undefined;

/** The agent as one file, next to this one in `dist`, or built there when we run from the sources. */
export function loadAgentBundle(): { text: string; sha256: string } {
  if (bundle) return bundle;
  for (const path of ['./agent.mjs', '../../dist/agent/agent.mjs']) {
    const text = readIfThere(new URL(path, import.meta.url));
    if (text === undefined) continue;
    bundle = { text, sha256: sha256(text) };
    return bundle;
  }
  throw new WindlassError('config_invalid', 'The in-pod agent was not built: dist/agent/agent.mjs is missing.', {
    hint: 'Run `npm run build`.',
  });
}

function readIfThere(url: URL): string | undefined {
  try {
    return readFileSync(url, 'utf8');
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ENOENT') return undefined;
    throw error;
  }
}

/** The content-addressed ConfigMap: the installation is in the hash, so that two of them never share one. */
export function agentConfigMap(installation: string): { name: string; data: { 'agent.mjs': string }; sha256: string } {
  const { text, sha256: digest } = loadAgentBundle();
  const name = `windlass-agent-${sha256(JSON.stringify([installation, digest])).slice(0, 40)}`;
  return { name, data: { 'agent.mjs': text }, sha256: digest };
}

/** Where delivery init_image puts Node (kubernetes/compose.ts); last, so that an image with a Node of its own uses that. */
const withNode = `PATH="$PATH:\${WINDLASS_OPT_DIR:-${podPaths.opt}}/bin"; export PATH`;
const agentFile = `"\${WINDLASS_AGENT_DIR:-${podPaths.agent}}/agent.mjs"`;

/**
 * The main container's command: runs the agent if it is the one with this sha256. Exit 127 = the image lacks what is
 * needed, 74 = another file than ours was mounted.
 * As the first process of a container (no parent) the shell stays and reaps what others leave behind, which Node cannot.
 * The marker of an earlier run of this container goes first, before a startup probe can see it.
 * Neither `$(` nor `$$` may be used in it: Kubernetes expands them.
 */
export function bootLine(sha256: string): string[] {
  const script = `${withNode}
for tool in node sha256sum; do
  command -v "$tool" >/dev/null 2>&1 || { echo "windlass: $tool not found" >&2; exit 127; }
done
rm -f "\${WINDLASS_RUN_DIR:-${podPaths.run}}/prepared"
agent=${agentFile}
sum=\`sha256sum <"$agent"\`
if [ "\${sum%% *}" != ${sha256} ]; then
  echo "windlass: $agent is not the agent that was asked for (sha256 \${sum%% *})" >&2
  exit 74
fi
if [ "$PPID" != 0 ]; then exec node "$agent" entry; fi
node "$agent" entry &
child=$!
trap 'kill -TERM "$child"' TERM INT
while :; do
  wait "$child"
  code=$?
  kill -0 "$child" 2>/dev/null || exit "$code"
done`;
  return ['/bin/sh', '-c', script];
}

/** For pods/exec: writes what `bootstrapInput` brings through stdin and prints `windlass: bootstrapped <bootstrapProof>`. */
export function bootstrapCommand(): string[] {
  return ['/bin/sh', '-c', `${withNode}; exec node ${agentFile} bootstrap`];
}

/** For pods/exec: prints `{"token": …}`; the old token ends, the next client that knows the nonce is bound to the new one. */
export function rekeyCommand(): string[] {
  return ['/bin/sh', '-c', `${withNode}; exec node ${agentFile} rekey`];
}

/** For pods/exec: one connection to the agent's port over stdin and stdout; the image needs no other tool for it. */
export function relayCommand(): string[] {
  return ['/bin/sh', '-c', `${withNode}; exec node ${agentFile} relay`];
}

/** Length line and JSON: the receiver knows its end without an end of stdin, which exec v4 cannot send. */
export function bootstrapInput(input: BootstrapInput): Buffer {
  const json = Buffer.from(canonicalJson(input));
  return Buffer.concat([Buffer.from(`${json.length}\n`), json]);
}

/** The sha256 that the Pod must print: without it an exec that seemed to succeed has proven nothing. */
export function bootstrapProof(input: BootstrapInput): string {
  return sha256(canonicalJson(input));
}
