import { randomInt } from 'node:crypto';
import {
  chmodSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  readlinkSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { dirname, join } from 'node:path';

/** A file of a projected volume: path inside the volume → content and mode. */
export type Payload = Map<string, { readonly content: Buffer; readonly mode: number }>;

/**
 * Writes a payload as the kubelet does: a new folder beside the old one, then one rename of the link `..data`, so that a
 * reader sees all of the old files or all of the new ones. Does nothing when the files are as they should be.
 */
export function writePayload(folder: string, payload: Payload): void {
  mkdirSync(folder, { recursive: true });
  const before = currentData(folder);
  if (before !== undefined && isSame(join(folder, before), payload)) return;
  const now = new Date().toISOString().replaceAll(/[-T:]/g, '_').slice(0, 19);
  const data = `..${now}.${randomInt(1e9, 4e9)}`;
  mkdirSync(join(folder, data), { mode: 0o755 });
  for (const [path, { content, mode }] of payload) {
    const file = join(folder, data, path);
    mkdirSync(dirname(file), { recursive: true });
    writeFileSync(file, content);
    chmodSync(file, mode);
  }
  symlinkSync(data, join(folder, '..data_tmp'));
  renameSync(join(folder, '..data_tmp'), join(folder, '..data'));
  const names = new Set([...payload.keys()].map((path) => path.split('/', 1)[0] as string));
  const visible = readdirSync(folder).filter((name) => !name.startsWith('..'));
  for (const name of names) if (!visible.includes(name)) symlinkSync(join('..data', name), join(folder, name));
  for (const name of visible) if (!names.has(name)) rmSync(join(folder, name), { force: true });
  if (before !== undefined) rmSync(join(folder, before), { recursive: true, force: true });
}

function currentData(folder: string): string | undefined {
  return readdirSync(folder).includes('..data') ? readlinkSync(join(folder, '..data')) : undefined;
}

function isSame(data: string, payload: Payload): boolean {
  const entries = readdirSync(data, { recursive: true, withFileTypes: true }).filter((entry) => entry.isFile());
  if (entries.length !== payload.size) return false;
  return entries.every((entry) => {
    const file = join(entry.parentPath, entry.name);
    return payload.get(file.slice(data.length + 1))?.content.equals(readFileSync(file)) === true;
  });
}
