import { spawn } from 'node:child_process';
import { accessSync, constants } from 'node:fs';
import { delimiter, join } from 'node:path';
import { Failure } from './run-command.mjs';

/** Package → the program that it brings. */
const programs = { 'redis-server': 'redis-server', bubblewrap: 'bwrap' };

/** Which of these packages are needed here and have no program on the PATH. */
export function missingTools(tools) {
  const sandboxless = process.platform !== 'linux' || process.env.WINDLASS_SANDBOX === 'none';
  return tools.filter((tool) => !(tool === 'bubblewrap' && sandboxless) && findProgram(programs[tool]) === undefined);
}

export function findProgram(name) {
  for (const folder of (process.env.PATH ?? '').split(delimiter).filter(Boolean)) {
    const file = join(folder, name);
    try {
      accessSync(file, constants.X_OK);
      return file;
    } catch (error) {
      if (error.code !== 'ENOENT' && error.code !== 'EACCES' && error.code !== 'ENOTDIR') throw error;
    }
  }
  return undefined;
}

/** How this process may install system packages: as root, or with a sudo that asks nothing. undefined = it may not. */
export async function mayInstall() {
  if (findProgram('apt-get') === undefined) return undefined;
  if (process.getuid?.() === 0) return { name: 'apt-get', shell: ['sh'] };
  if (findProgram('sudo') === undefined) return undefined;
  const code = await shell(['sudo', '-n', 'true'], '', 'ignore');
  return code === 0 ? { name: 'sudo apt-get', shell: ['sudo', '-n', 'sh'] } : undefined;
}

/** What a person types to install these packages. */
export function aptCommand(tools) {
  if (process.platform === 'darwin') return `brew install ${tools.map((tool) => tool.replace('-server', '')).join(' ')}`;
  return `sudo apt-get update && sudo apt-get install -y --no-install-recommends ${tools.join(' ')}`;
}

/** Installs `tools`; throws when one of `required` is still missing afterwards. */
export async function installTools(tools, how, required) {
  const code = await shell([...how.shell, '-s', '--', ...tools], script, 2);
  const left = missingTools(required);
  if (left.length > 0)
    throw new Failure(`apt-get could not install ${left.join(' and ')} (exit ${code}). Type: ${aptCommand(left)}`, 2);
}

// A freshly installed redis-server would be started on 6379 and enabled for the next boot. policy-rc.d (101 = "do not
// start") keeps the first from happening, the disable afterwards the second; a policy or a service that was there before
// us is left alone. Package lists have no lock option of their own in older apt, so the update is repeated for a while.
const script = `
set -u
export DEBIAN_FRONTEND=noninteractive
policy=/usr/sbin/policy-rc.d
if [ ! -e "$policy" ]; then
  trap 'rm -f "$policy"' EXIT
  trap 'exit 130' INT TERM HUP
  printf '#!/bin/sh\\nexit 101\\n' > "$policy" && chmod 755 "$policy"
fi
had_redis=no
[ -e /etc/init.d/redis-server ] && had_redis=yes
tries=0
until apt-get update -qq; do
  tries=$((tries + 1))
  [ "$tries" -ge 30 ] && break
  if command -v fuser >/dev/null 2>&1 && fuser /var/lib/apt/lists/lock >/dev/null 2>&1; then sleep 5; else break; fi
done
apt-get install -y -qq --no-install-recommends -o DPkg::Lock::Timeout=300 -o Dpkg::Use-Pty=0 "$@"
code=$?
if [ "$had_redis" = no ] && [ -e /etc/init.d/redis-server ]; then
  update-rc.d redis-server disable
  command -v systemctl >/dev/null 2>&1 && systemctl disable redis-server
fi
exit "$code"
`;

function shell([program, ...args], input, output) {
  return new Promise((resolve, reject) => {
    const child = spawn(program, args, { stdio: ['pipe', output, output] });
    child.once('error', reject);
    child.once('exit', (code) => resolve(code ?? 1));
    // A shell that ended early closes its input: its exit code says why.
    child.stdin.on('error', (error) => (error.code === 'EPIPE' ? undefined : reject(error)));
    child.stdin.end(input);
  });
}
