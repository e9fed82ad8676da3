import type { ContainerSetup, Mount } from './isolation.ts';
import type { ToolboxView } from './toolbox.ts';

/**
 * The Pod: its own network, pids, ipc and host name; the machine's files as they are, because only our supervisor lives
 * here, and containers get a root of their own inside. The uid is not 0: mapping a parent's uid 0 again needs a
 * capability that ordinary users lack.
 */
export function podArguments(options: {
  hostname: string;
  memoryFolders: readonly string[];
  command: readonly string[];
}): string[] {
  return [
    ...['--unshare-all', '--as-pid-1', '--uid', '1000', '--gid', '1000', '--hostname', options.hostname, '--die-with-parent'],
    ...['--dev-bind', '/', '/', '--proc', '/proc'],
    ...options.memoryFolders.flatMap((folder) => ['--tmpfs', folder]),
    ...['--', ...options.command],
  ];
}

/** PID 1 of the Pod: reaps what containers orphan (Node cannot) and hands signals to the supervisor, which knows the containers. */
export const initScript = [
  'exec 3<&0',
  '"$@" <&3 & supervisor=$!',
  'for name in HUP INT QUIT TERM USR1 USR2; do trap "kill -$name $supervisor" $name; done',
  'while kill -0 $supervisor 2>/dev/null; do wait $supervisor; done',
].join('\n');

const bind = ({ source, target, readOnly }: Mount): string[] => [readOnly ? '--ro-bind' : '--bind', source, target];

/**
 * One process of a container, inside the Pod's sandbox. Every exec builds the same root again from the same folders, so
 * that it sees what the container sees without having to enter its namespaces.
 */
export function containerArguments(setup: ContainerSetup, view: ToolboxView, shm: string, argv: readonly string[]): string[] {
  const id = (value: number) => String(value);
  return [
    ...['--unshare-user', '--uid', id(setup.uid), '--gid', id(setup.gid), '--die-with-parent', '--info-fd', '3'],
    ...bind({ source: setup.root, target: '/', readOnly: setup.readOnlyRoot }),
    ...view.mounts.flatMap(bind),
    ...['--bind', '/proc', '/proc', '--dev', '/dev', '--bind', shm, '/dev/shm'],
    ...setup.mounts.flatMap(bind),
    ...['--chdir', setup.workingDir ?? '/', '--', ...argv],
  ];
}
