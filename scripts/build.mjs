import { chmod, cp, readdir } from 'node:fs/promises';
import { join, relative } from 'node:path';
import { pathToFileURL } from 'node:url';
import { root } from './lib/paths.mjs';
import { run } from './lib/run-command.mjs';

/** sources → dist/: compiled JavaScript and types, the files that modules read from beside themselves, the agent in one file. */
export async function build() {
  await run(process.execPath, [join(root, 'node_modules/typescript/bin/tsc'), '-p', join(root, 'tsconfig.build.json')]);
  await copyAssets();
  const { buildAgent } = await import('./build-agent.mjs');
  await buildAgent();
  await chmod(join(root, 'dist/cli/main.js'), 0o755);
}

/** tsc leaves everything but TypeScript behind; what a module reads from beside itself has to be there in dist too. */
async function copyAssets() {
  const entries = await readdir(join(root, 'src'), { recursive: true, withFileTypes: true });
  for (const entry of entries.filter((found) => found.isFile() && !found.name.endsWith('.ts'))) {
    const file = join(entry.parentPath, entry.name);
    await cp(file, join(root, 'dist', relative(join(root, 'src'), file)));
  }
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) await build();
