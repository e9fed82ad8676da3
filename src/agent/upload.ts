import { podPaths } from './protocol.ts';

/** The Pod's own word for which file it waits for; set by compose. */
export const digestVariable = 'WINDLASS_AGENT_SHA256';

/** Printed when the bytes are wanted: a file that is there already is not sent again. */
export const uploadWanted = 'windlass: send the agent';
/** Printed, with the digest, once the file is there whole. */
export const uploadProof = (sha256: string): string => `windlass: the agent is there ${sha256}`;

/**
 * For pods/exec: writes the agent's program from stdin. Whole or not at all: a temporary file beside it, its digest checked,
 * then renamed. Reads exactly `size` bytes, since an older server cannot end stdin. Exit 65 = damaged on the way,
 * 73 = the folder is not ours alone, 75 = this Pod waits for another file than this worker has, 127 = a tool is missing.
 */
export function uploadCommand(file: { readonly sha256: string; readonly size: number }): string[] {
  const script = `set -ef
umask 022
for tool in sha256sum mktemp head chmod mv; do
  command -v "$tool" >/dev/null 2>&1 || { echo "windlass: $tool not found" >&2; exit 127; }
done
if [ "$${digestVariable}" != ${file.sha256} ]; then echo "windlass: this Pod waits for another agent" >&2; exit 75; fi
agent="\${WINDLASS_AGENT:-${podPaths.opt}/agent}"
dir="\${agent%/*}"
if [ -L "$dir" ] || [ ! -d "$dir" ] || [ -L "$agent" ]; then echo "windlass: $agent is not in a folder of ours" >&2; exit 73; fi
is_right() { sum=\`sha256sum <"$1"\`; [ "\${sum%% *}" = ${file.sha256} ]; }
if [ -f "$agent" ] && is_right "$agent"; then echo "${uploadProof(file.sha256)}"; exit 0; fi
part=\`mktemp "$agent.XXXXXX"\`
trap 'rm -f "$part"' EXIT
echo "${uploadWanted}"
head -c ${file.size} >"$part"
is_right "$part" || { echo "windlass: the agent arrived damaged" >&2; exit 65; }
chmod 0755 "$part"
mv -f "$part" "$agent"
echo "${uploadProof(file.sha256)}"`;
  return ['/bin/sh', '-c', script];
}
