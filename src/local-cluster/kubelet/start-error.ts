/** What the container runtime says of a program that cannot be started, from what bwrap or the system said. */
export function describeStartError(program: string, error: string): string {
  const missing = /No such file or directory|ENOENT/.test(error);
  const denied = /Permission denied|EACCES/.test(error);
  const runs = `unable to start container process: exec: "${program}":`;
  if (missing)
    return `${runs} ${program.includes('/') ? `stat ${program}: no such file or directory` : 'executable file not found in $PATH'}: unknown`;
  if (denied) return `${runs} permission denied: unknown`;
  return `${runs} ${error}: unknown`;
}
