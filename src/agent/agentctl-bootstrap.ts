import { sha256 } from '../names.ts';
import { agentctlPorts } from './agentctl-client.ts';
import type { BootstrapInput } from './delivery.ts';
import { agentPort, podPaths } from './protocol.ts';

const quoted = (text: string): string => `'${text.replaceAll("'", "'\\''")}'`;

/**
 * Sets a variable. A name that the shell keeps for itself (bash: UID) would end it: tried in a child first, and told when it
 * cannot be had. Nothing but the shell is used: PATH may be the caller's by now.
 */
const setVariable = `windlass_set() {
  if (export "$1=$2") 2>/dev/null; then export "$1=$2"; else echo "windlass: $1 belongs to the shell and was not set" >&2; fi
}`;

/**
 * The file that the boot line reads: one, since what is read from a pipe cannot be cut into several without reading too
 * much. On the memory volume as a whole, secret or not. Reading it sets nothing of the caller's: that is what
 * `windlass_env` does, and after it `windlass_agentctl` what nobody may set otherwise.
 */
export function agentctlBootFile(input: BootstrapInput): string {
  const theirs = Object.entries({ ...input.runtimeEnv, ...input.authEnv })
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, value]) => `  windlass_set ${name} ${quoted(value)}`);
  const lines = [
    `AGENTCTL_BOOTSTRAP_NONCE=${quoted(input.nonce)}`,
    `WINDLASS_PREPARE=${quoted(input.prepare ?? '')}`,
    setVariable,
    'windlass_env() {',
    ...theirs,
    `  export HOME="\${WINDLASS_RUN_DIR:-${podPaths.run}}/home"`,
    '}',
    'windlass_agentctl() {',
    // Where to listen the container's own environment says, as for our agent.
    '  export AGENTCTL_LISTEN_HOST="$WINDLASS_AGENT_HOST" AGENTCTL_WORKDIR="$WINDLASS_WORKSPACE"',
    `  export AGENTCTL_PORT=${agentPort} AGENTCTL_BOOTSTRAP_NONCE=${quoted(input.nonce)}`,
    `  export AGENTCTL_INSTANCE_PORT_BASE=${agentctlPorts.base} AGENTCTL_INSTANCE_PORT_MAX=${agentctlPorts.max}`,
    '}',
  ];
  return `${lines.join('\n')}\n`;
}

/** The sha256 that the Pod must print, as for our own agent. */
export const agentctlBootProof = (input: BootstrapInput): string => sha256(agentctlBootFile(input));

/**
 * For pods/exec: takes `agentctlBootFile` through stdin, the start marker last. Needs a POSIX shell and the tools that
 * uploading needs; exit codes as there. Running it again is harmless.
 */
export function agentctlBootCommand(input: BootstrapInput): string[] {
  const size = Buffer.byteLength(agentctlBootFile(input));
  const script = `set -ef
umask 077
run="\${WINDLASS_RUN_DIR:-${podPaths.run}}"
for tool in sha256sum mktemp head chmod mv; do
  command -v "$tool" >/dev/null 2>&1 || { echo "windlass: $tool not found" >&2; exit 127; }
done
if [ -L "$run" ] || [ ! -d "$run" ] || [ -L "$run/home" ]; then echo "windlass: $run is not a folder of ours" >&2; exit 73; fi
part=\`mktemp "$run/boot.XXXXXX"\`
trap 'rm -f "$part"' EXIT
head -c ${size} >"$part"
sum=\`sha256sum <"$part"\`
if [ "\${sum%% *}" != ${agentctlBootProof(input)} ]; then echo "windlass: the bootstrap arrived damaged" >&2; exit 65; fi
rm -f "$run/start"
mkdir -p "$run/home"
chmod 0700 "$run/home"
mv -f "$part" "$run/boot.sh"
: >"$run/start.tmp"
mv -f "$run/start.tmp" "$run/start"
echo "windlass: bootstrapped \${sum%% *}"`;
  return ['/bin/sh', '-c', script];
}

/**
 * For pods/exec: ends the agentctl that runs, so that the kubelet starts it anew: its nonce is armed again then. The
 * container's other processes go with it, which is why nobody does that without need.
 */
export function agentctlRestartCommand(): string[] {
  const run = `"\${WINDLASS_RUN_DIR:-${podPaths.run}}"`;
  return ['/bin/sh', '-c', `read -r pid <${run}/agent.pid && kill -TERM "$pid"`];
}

/**
 * For pods/exec: prints the nonce that this Pod was bootstrapped with; exit 3 = its agent was not started (yet): the Pod was
 * never bootstrapped, or its prepare step runs.
 */
export function agentctlNonceCommand(): string[] {
  const run = `"\${WINDLASS_RUN_DIR:-${podPaths.run}}"`;
  const script = `[ -f ${run}/boot.sh ] && [ -f ${run}/prepared ] || exit 3; . ${run}/boot.sh; printf %s "$AGENTCTL_BOOTSTRAP_NONCE"`;
  return ['/bin/sh', '-c', script];
}
