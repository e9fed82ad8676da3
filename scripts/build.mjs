import { createHash } from 'node:crypto';
import { chmod, cp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { root } from './lib/paths.mjs';
import { run } from './lib/run-command.mjs';

const source = join(root, 'src');
const target = join(root, 'dist');
const stamp = join(target, '.sources');

/**
 * sources → dist/: compiled JavaScript and types, the files that modules read from beside themselves, the agent in one
 * file. Does nothing when dist/ is already made of these sources: another demo may be running from it.
 */
export async function build() {
  const sources = await filesUnder(source);
  const hash = await hashOf(sources);
  if ((await readFile(stamp, 'utf8').catch(missing)) === hash) return;
  await rm(stamp, { force: true });
  await run(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', join(root, 'tsconfig.build.json')]);
  // tsc leaves everything but TypeScript behind.
  for (const file of sources.filter((name) => !name.endsWith('.ts'))) await cp(file, join(target, relative(source, file)));
  const { buildAgent } = await import('./build-agent.mjs');
  await buildAgent();
  await chmod(join(target, 'cli/main.js'), 0o755);
  await writeFile(stamp, hash);
}

/** As `build`, from nothing: no file of an earlier build stays behind. */
async function rebuild() {
  await rm(target, { recursive: true, force: true });
  await build();
}

async function filesUnder(folder) {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => join(entry.parentPath, entry.name))
    .sort();
}

async function hashOf(sources) {
  const settings = ['tsconfig.json', 'tsconfig.build.json', 'package-lock.json', 'scripts/build-agent.mjs'];
  const hash = createHash('sha256');
  for (const file of [...sources, ...settings.map((name) => join(root, name))]) {
    hash.update(`${relative(root, file)}\0`).update(await readFile(file));
  }
  return hash.digest('hex');
}

function missing(error) {
  if (error.code === 'ENOENT') return undefined;
  throw error;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await rebuild();
