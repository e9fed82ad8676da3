import { existsSync } from 'node:fs';
import { mkdtemp, readFile, rename, rm } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { build, type Plugin } from 'esbuild';
import { root } from './root.ts';
import { built } from './world.ts';

const dist = join(root, 'dist');

/** What is optional to those who ask for it. */
const external = ['bufferutil', 'utf-8-validate', 'supports-color'];

/** A module that reads files from beside itself finds them where they are, not beside the bundle. */
const inPlace: Plugin = {
  name: 'in place',
  setup(bundler) {
    bundler.onLoad({ filter: /\.js$/ }, async ({ path }) => {
      if (!path.startsWith(dist)) return undefined;
      const text = await readFile(path, 'utf8');
      return {
        contents: text
          .replaceAll('import.meta.dirname', JSON.stringify(dirname(path)))
          .replaceAll('import.meta.url', JSON.stringify(pathToFileURL(path).href)),
      };
    });
  },
};

/**
 * dist/ with its packages in a few files, for suites that start hundreds of workers: reading 2,500 modules is most of
 * what a start costs. The same code; resolves with the path of its `cli/main.js`. Made once for each state of the sources.
 */
export async function bundle(): Promise<string> {
  await built();
  const scratch = join(root, '.windlass');
  const made = join(scratch, `bundle-${(await readFile(join(scratch, 'built-from'), 'utf8')).slice(0, 16)}`);
  const main = join(made, 'cli/main.js');
  if (existsSync(main)) return main;
  const fresh = await mkdtemp(join(scratch, 'bundling-'));
  try {
    await build({
      entryPoints: [join(dist, 'cli/main.js'), join(dist, 'main.js')],
      outbase: dist,
      outdir: fresh,
      bundle: true,
      splitting: true,
      format: 'esm',
      platform: 'node',
      target: 'node20',
      external,
      plugins: [inPlace],
      banner: { js: "import { createRequire as requireFor } from 'node:module'; const require = requireFor(import.meta.url);" },
      logLevel: 'error',
    });
    // Another suite may have been quicker: its bundle is the same.
    await rename(fresh, made).catch((error: unknown) => {
      if (!existsSync(main)) throw error;
    });
  } finally {
    await rm(fresh, { recursive: true, force: true });
  }
  return main;
}
