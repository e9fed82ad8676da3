import { podPaths } from './protocol.ts';

/** How the agent's program comes into a container, as far as the container itself has to know. */
export interface AgentProgram {
  readonly protocol: 'windlass' | 'agentctl';
  /** In the container; undefined = in the mounted ConfigMap. `.mjs` is run by the container's Node, anything else by itself. */
  readonly path?: string;
  /** What is run must have it; undefined = it came with the image, which is trusted as a whole. */
  readonly sha256?: string;
  /** It comes by exec, after the container was started. */
  readonly uploaded?: boolean;
}

/** Names the program for every later command in the container, whatever delivered it. */
export const programVariable = 'WINDLASS_AGENT';

/** Where delivery init_image puts Node (kubernetes/compose.ts); last, so that an image with a Node of its own uses that. */
const withNode = `PATH="$PATH:\${WINDLASS_OPT_DIR:-${podPaths.opt}}/bin"; export PATH`;
const theAgent = `agent="\${${programVariable}:-\${WINDLASS_AGENT_DIR:-${podPaths.agent}}/agent.mjs}"`;
const asWords = 'case "$agent" in *.mjs) set -- node "$agent" ;; *) set -- "$agent" ;; esac';
const runDir = `run="\${WINDLASS_RUN_DIR:-${podPaths.run}}"`;

/**
 * The main container's command: runs the agent if it is the one that was asked for. Exit 127 = the image lacks what is
 * needed, 74 = another file than ours is there. The marker of an earlier run of this container goes first, before a
 * startup probe can see it. Neither `$(` nor `$$` may be used in it: Kubernetes expands them.
 */
export function bootLine(program: AgentProgram): string[] {
  const script = [
    withNode,
    runDir,
    theAgent,
    asWords,
    toolCheck(program),
    'rm -f "$run/prepared"',
    ...(program.uploaded ? [untilThere('$agent')] : []),
    ...(program.path !== undefined && !program.uploaded
      ? ['[ -f "$agent" ] || { echo "windlass: $agent not found" >&2; exit 127; }']
      : []),
    ...(program.sha256 === undefined ? [] : [digestCheck(program.sha256)]),
    program.protocol === 'agentctl' ? startAgentctl : startAgent,
  ];
  return ['/bin/sh', '-c', script.join('\n')];
}

function toolCheck({ path, sha256, protocol }: AgentProgram): string {
  const node = path === undefined || path.endsWith('.mjs') ? ['node'] : [];
  const tools = [...node, ...(sha256 === undefined && protocol === 'windlass' ? [] : ['sha256sum'])];
  return `for tool in ${tools.join(' ')}; do
  command -v "$tool" >/dev/null 2>&1 || { echo "windlass: $tool not found" >&2; exit 127; }
done`;
}

/** A shell without a trap ignores SIGTERM as the first process, and its Pod would end only with its grace. */
const untilThere = (file: string): string => `trap 'exit 0' TERM INT
while [ ! -f "${file}" ]; do sleep 1; done
trap - TERM INT`;

const digestCheck = (sha256: string): string => `sum=\`sha256sum <"$agent"\`
if [ "\${sum%% *}" != ${sha256} ]; then
  echo "windlass: $agent is not the agent that was asked for (sha256 \${sum%% *})" >&2
  exit 74
fi`;

/** As the first process of a container (no parent) the shell stays and reaps what others leave behind, which Node cannot. */
const startAgent = `if [ "$PPID" != 0 ]; then exec "$@" entry; fi
"$@" entry &
child=$!
trap 'kill -TERM "$child"' TERM INT
while :; do
  wait "$child"
  code=$?
  kill -0 "$child" 2>/dev/null || exit "$code"
done`;

/**
 * What our own agent does for itself. What prepare prints stays in the Pod: nothing here could hide the instance's secrets
 * in it. The pid is kept for a restart that is asked for (jobs/rekey.ts); a child shell tells it, since `$$` is expanded.
 * The caller's variables (`windlass_env` of boot.sh) are set last, where only a program with its whole path follows: a PATH,
 * IFS or `run` of theirs is for their programs, not for this one.
 */
const startAgentctl = `${untilThere('$run/start')}
. "$run/boot.sh"
case "$1" in /*) ;; *) program=\`command -v "$1"\`; shift; set -- "$program" "$@" ;; esac
if [ -n "$WINDLASS_PREPARE" ]; then
  sum=\`printf %s "$WINDLASS_PREPARE" | sha256sum\`
  marker="$WINDLASS_WORKSPACE/.windlass/prepared"
  if [ ! -f "$marker" ] || [ "\`cat "$marker"\`" != "\${sum%% *}" ]; then
    ( cd "$WINDLASS_WORKSPACE" && windlass_env && exec /bin/sh -c "$WINDLASS_PREPARE" ) >"$run/prepare.log" 2>&1
    code=$?
    if [ "$code" != 0 ]; then echo "windlass: prepare failed with exit code $code" >&2; exit "$code"; fi
    mkdir -p "$WINDLASS_WORKSPACE/.windlass"
    echo "\${sum%% *}" >"$marker.tmp" && mv -f "$marker.tmp" "$marker"
  fi
fi
/bin/sh -c 'echo "$PPID"' >"$run/agent.pid"
: >"$run/prepared"
windlass_env
windlass_agentctl
exec "$@"`;

const inContainer = (mode: string): string[] => ['/bin/sh', '-c', [withNode, theAgent, asWords, `exec "$@" ${mode}`].join('\n')];

/** For pods/exec: writes what `bootstrapInput` brings through stdin and prints `windlass: bootstrapped <bootstrapProof>`. */
export const bootstrapCommand = (): string[] => inContainer('bootstrap');

/** For pods/exec: prints `{"token": …}`; the old token ends, the next client that knows the nonce is bound to the new one. */
export const rekeyCommand = (): string[] => inContainer('rekey');

/** For pods/exec: one connection to the agent's port over stdin and stdout; the image needs no other tool for it. */
export const relayCommand = (): string[] => inContainer('relay');
