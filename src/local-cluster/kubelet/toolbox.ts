import { existsSync, lstatSync, readdirSync, readlinkSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import type { Toolbox } from './images.ts';
import { defaultPath, type Mount } from './isolation.ts';

/** What of the machine a container sees: programs and libraries, never accounts, keys or homes. */
export interface ToolboxView {
  readonly mounts: readonly Mount[];
  /** Links at the root, name → target. */
  readonly links: ReadonlyMap<string, string>;
  readonly path: string;
}

const systemFolders = ['usr', 'bin', 'sbin', 'lib', 'lib32', 'lib64', 'libx32', 'nix', 'gnu'];
/** Only these: /etc/shadow and its like stay out, also where the cluster runs as root. */
const systemConfig = [
  'alternatives',
  'ca-certificates',
  'ca-certificates.conf',
  'crypto-policies',
  'ld.so.cache',
  'ld.so.conf',
  'ld.so.conf.d',
  'mime.types',
  'os-release',
  'pki',
  'protocols',
  'services',
  'ssl',
];
const own = '/.toolbox';
const notOurs = new Set(['proc', 'dev', 'sys', 'etc', 'tmp', own.slice(1)]);

const readOnly = (source: string, target: string): Mount => ({ source, target, readOnly: true });

/** The running Node: in /usr it is there already, elsewhere its folder is mounted where no volume can cover it. */
export function nodeFolder(execPath: string): { mounts: Mount[]; bin: string } {
  const bin = dirname(execPath);
  if (bin.startsWith('/usr/')) return { mounts: [], bin };
  const isBin = basename(bin) === 'bin';
  return { mounts: [readOnly(isBin ? dirname(bin) : bin, `${own}/node`)], bin: isBin ? `${own}/node/bin` : `${own}/node` };
}

function system(): { mounts: Mount[]; links: Map<string, string> } {
  const mounts: Mount[] = [];
  const links = new Map<string, string>();
  for (const name of systemFolders) {
    const entry = lstatSync(`/${name}`, { throwIfNoEntry: false });
    if (entry?.isSymbolicLink()) links.set(name, readlinkSync(`/${name}`));
    else if (entry?.isDirectory()) mounts.push(readOnly(`/${name}`, `/${name}`));
  }
  for (const name of systemConfig) if (existsSync(`/etc/${name}`)) mounts.push(readOnly(`/etc/${name}`, `/etc/${name}`));
  return { mounts, links };
}

/**
 * The operator's own folder: with its own shell (bin/sh or usr) it is the whole image, otherwise its entries join the
 * system's, and its bin comes first in PATH.
 */
function withFolder(folder: string, view: ToolboxView): ToolboxView {
  const entries = readdirSync(folder).filter((name) => !notOurs.has(name));
  const whole = entries.includes('usr') || existsSync(join(folder, 'bin/sh'));
  const taken = new Set([...view.links.keys(), ...view.mounts.map((mount) => mount.target.slice(1))]);
  const joined = entries.filter((name) => whole || !taken.has(name)).map((name) => readOnly(join(folder, name), `/${name}`));
  if (whole) return { mounts: joined, links: new Map(), path: defaultPath };
  const mounts = [...view.mounts, ...joined, readOnly(folder, `${own}/image`)];
  return { mounts, links: view.links, path: `${own}/image/bin:${view.path}` };
}

export function viewToolbox(toolbox: Toolbox, execPath: string): ToolboxView {
  const { mounts, links } = system();
  const node = nodeFolder(execPath);
  const path = defaultPath.split(':').includes(node.bin) ? defaultPath : `${node.bin}:${defaultPath}`;
  const view = { mounts: [...mounts, ...node.mounts], links, path };
  return toolbox.folder === undefined ? view : withFolder(toolbox.folder, view);
}
