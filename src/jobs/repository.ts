import type { LaunchPayload } from './catalog.ts';

const quote = (text: string) => `'${text.replaceAll("'", `'\\''`)}'`;

/**
 * Shell text that makes the repository be there before the caller's own prepare text runs. A kept workspace of the same
 * origin is reused with its untracked files; one of another origin is refused, since checking out over it would lose work.
 */
export function repositoryScript(repository: LaunchPayload['repository']): string {
  if (repository === undefined) return '';
  const url = quote(repository.url);
  const checkout =
    repository.ref === undefined ? '' : `git fetch -q origin ${quote(repository.ref)} && git checkout -q FETCH_HEAD || exit 1\n`;
  // Most provisioners make the root of a volume as root, and git takes no repository in somebody else's folder. In the
  // instance's own home, so that the commands of its user may use it too.
  return `export GIT_TERMINAL_PROMPT=0
git config --global --add safe.directory "$PWD"
if [ -d .git ]; then
  if [ "$(git config --get remote.origin.url)" != ${url} ]; then
    echo "windlass: the workspace holds another repository than" ${url} >&2
    exit 1
  fi
else
  git init -q . && git remote add origin ${url} && git fetch -q origin HEAD && git checkout -q FETCH_HEAD || exit 1
fi
${checkout}`;
}
