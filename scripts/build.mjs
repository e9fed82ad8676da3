import { createHash } from 'node:crypto';
import { existsSync } from 'node:fs';
import { chmod, cp, mkdir, mkdtemp, readdir, readFile, rename, rm, stat, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { root } from './lib/paths.mjs';
import { run } from './lib/run-command.mjs';

const source = join(root, 'src');
const target = join(root, 'dist');
const scratch = join(root, '.windlass');
/** Says which sources dist/ was made of. */
const stamp = join(scratch, 'built-from');
const agent = 'agent/agent.mjs';

/** A process that runs from dist/ across a build loads its later parts under their old names. */
const keepPartsMs = 24 * 3_600_000;
/** What is published holds this build's files and no others. */
const packing = process.env.npm_lifecycle_event === 'prepack';

/**
 * sources → dist/: what `import 'windlass'` needs as JavaScript and types, the command line in a few files with its
 * packages, the files that modules read from beside themselves, the agent in one file. Does nothing when dist/ is already
 * made of these sources. Every file is replaced by rename, since tests and another demo may be running from it.
 */
export async function build() {
  const sources = await filesUnder(source);
  const hash = await hashOf(sources);
  const built = await readFile(stamp, 'utf8').catch(noFile);
  if (built === hash && !packing && existsSync(join(target, 'cli/main.js')) && existsSync(join(target, agent))) return;
  await mkdir(scratch, { recursive: true });
  const fresh = await mkdtemp(join(scratch, 'build-'));
  try {
    await run(process.execPath, [
      join(root, 'node_modules/typescript/bin/tsc'),
      '-p',
      join(root, 'tsconfig.build.json'),
      '--outDir',
      fresh,
    ]);
    // tsc leaves everything but TypeScript behind.
    for (const file of sources.filter((name) => !name.endsWith('.ts'))) await cp(join(source, file), join(fresh, file));
    const { bundleCli } = await import('./bundle-cli.mjs');
    await bundleCli(fresh);
    await chmod(join(fresh, 'cli/main.js'), 0o755);
    await replace(fresh);
    const { buildAgent } = await import('./build-agent.mjs');
    await buildAgent();
    await writeFile(stamp, hash);
  } finally {
    await rm(fresh, { recursive: true, force: true });
  }
}

/** Moves every file of `fresh` over its predecessor, then removes those that have no successor. */
async function replace(fresh) {
  const files = await filesUnder(fresh);
  // What the two programs load is there before they are.
  const programs = ['cli/parts.js', 'cli/main.js'];
  for (const file of [...files.filter((name) => !programs.includes(name)), ...programs]) {
    await mkdir(dirname(join(target, file)), { recursive: true });
    await rename(join(fresh, file), join(target, file));
  }
  const kept = new Set([...files, agent]);
  for (const file of await filesUnder(target)) {
    if (!kept.has(file) && (packing || !(await isRecentPart(file)))) await rm(join(target, file), { force: true });
  }
}

async function isRecentPart(file) {
  return dirname(file) === 'cli' && Date.now() - (await stat(join(target, file))).mtimeMs < keepPartsMs;
}

/** Paths below the folder, sorted. */
async function filesUnder(folder) {
  const entries = await readdir(folder, { recursive: true, withFileTypes: true });
  return entries
    .filter((entry) => entry.isFile())
    .map((entry) => relative(folder, join(entry.parentPath, entry.name)))
    .sort();
}

async function hashOf(sources) {
  const settings = [
    'tsconfig.json',
    'tsconfig.build.json',
    'package-lock.json',
    'scripts/build-agent.mjs',
    'scripts/bundle-cli.mjs',
  ];
  const hash = createHash('sha256');
  for (const file of [...sources.map((name) => join('src', name)), ...settings])
    hash.update(`${file}\0`).update(await readFile(join(root, file)));
  return hash.digest('hex');
}

function noFile(error) {
  if (error.code === 'ENOENT') return undefined;
  throw error;
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await build();
