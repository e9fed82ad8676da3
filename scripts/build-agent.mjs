import { randomBytes } from 'node:crypto';
import { mkdir, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { build } from 'esbuild';

const root = join(dirname(fileURLToPath(import.meta.url)), '..');
const target = join(root, 'dist/agent/agent.mjs');

/**
 * Bundles the in-pod agent to one file without dependencies. Same sources, same bytes: the file's hash is in every Pod
 * spec. Replaced by rename, so that tests may build it at the same time.
 */
export async function buildAgent() {
  await mkdir(dirname(target), { recursive: true });
  const temporary = `${target}.${randomBytes(4).toString('hex')}`;
  try {
    await build({
      absWorkingDir: root,
      entryPoints: ['src/agent/program/main.ts'],
      outfile: temporary,
      bundle: true,
      platform: 'node',
      target: 'node20',
      format: 'esm',
      minify: true,
      keepNames: false,
      legalComments: 'none',
      logLevel: 'warning',
    });
    await rename(temporary, target);
  } finally {
    await rm(temporary, { force: true });
  }
}

if (process.argv[1] && import.meta.url === pathToFileURL(process.argv[1]).href) await buildAgent();
