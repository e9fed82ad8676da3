import { chmodSync, closeSync, existsSync, lstatSync, mkdirSync, openSync, statSync, symlinkSync, writeFileSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { ContainerSetup, Mount } from './isolation.ts';
import type { ToolboxView } from './toolbox.ts';

/**
 * Lays out a container's private root: writable folders as images have them, the files of /etc that the container runtime
 * writes, and a mount point for everything that is mounted (a read-only root cannot get them later).
 */
export function layOutRoot(setup: ContainerSetup, view: ToolboxView, hosts: string, hostname: string): void {
  const { root } = setup;
  for (const folder of [
    'etc',
    'home/node',
    'mnt',
    'opt',
    'proc',
    'dev',
    'root',
    'run',
    'srv',
    'sys',
    'var/log',
    'var/lib',
    'var/cache',
  ]) {
    mkdirSync(join(root, folder), { recursive: true });
  }
  for (const folder of ['tmp', 'var/tmp']) {
    mkdirSync(join(root, folder), { recursive: true });
    chmodSync(join(root, folder), 0o1777);
  }
  for (const [name, target] of view.links) if (!existsSync(join(root, name))) symlinkSync(target, join(root, name));
  const files: Record<string, string> = {
    'etc/passwd':
      'root:x:0:0:root:/root:/bin/sh\nnode:x:1000:1000::/home/node:/bin/sh\nnobody:x:65534:65534:nobody:/nonexistent:/bin/false\n',
    'etc/group': 'root:x:0:\nnode:x:1000:\nnogroup:x:65534:\n',
    'etc/hosts': hosts,
    'etc/hostname': `${hostname}\n`,
    'etc/nsswitch.conf': 'passwd: files\ngroup: files\nhosts: files dns\n',
    'etc/resolv.conf': '',
  };
  for (const [name, content] of Object.entries(files)) writeFileSync(join(root, name), content);
  for (const mount of [...view.mounts, ...setup.mounts]) mountPoint(root, mount, setup.mounts);
  if (setup.workingDir !== undefined && !isMounted(setup.workingDir, setup.mounts)) {
    mkdirSync(join(root, setup.workingDir), { recursive: true });
  }
}

function isMounted(path: string, mounts: readonly Mount[]): boolean {
  return mounts.some(({ target }) => path === target || path.startsWith(`${target}/`));
}

/** Under another mount the mount point belongs into that one; writable volumes get it there, as the runtime does it. */
function mountPoint(root: string, mount: Mount, others: readonly Mount[]): void {
  const parents = others.filter((other) => other !== mount && mount.target.startsWith(`${other.target}/`));
  const parent = parents.sort((a, b) => b.target.length - a.target.length)[0];
  const at = parent === undefined ? join(root, mount.target) : join(parent.source, mount.target.slice(parent.target.length));
  if (mount.target.startsWith('/dev/') || lstatSync(at, { throwIfNoEntry: false }) !== undefined) return;
  // A memory volume is no folder of ours to look at: it is empty outside the sandbox, but always a folder.
  if (statSync(mount.source, { throwIfNoEntry: false })?.isFile()) {
    mkdirSync(dirname(at), { recursive: true });
    closeSync(openSync(at, 'a'));
  } else mkdirSync(at, { recursive: true });
}
