import { existsSync } from 'node:fs';
import { readdir, readFile, writeFile } from 'node:fs/promises';
import { dirname, join, relative } from 'node:path';
import { build } from 'esbuild';
import { root } from './lib/paths.mjs';

const source = join(root, 'src');

/** Optional parts of packages, which nobody installs; and the pages' packages, which read files from beside themselves. */
const external = ['bufferutil', 'utf-8-validate', 'supports-color', 'fastify', '@bull-board/*'];

/** CommonJS packages ask for Node's modules by `require`. */
const banner = { js: "import { createRequire as requireFor } from 'node:module'; const require = requireFor(import.meta.url);" };

const common = { bundle: true, format: 'esm', platform: 'node', target: 'node20', external, banner, logLevel: 'warning' };

/**
 * The command line with its packages in a few files, all in `<folder>/cli`, and the certificate's thread in one: reading
 * thousands of modules is most of what a start costs. Beside them the notices of those packages.
 */
export async function bundleCli(folder) {
  const options = { ...common, absWorkingDir: root, metafile: true };
  const program = await build({
    ...options,
    // The second is a name for what a worker loads, so that suites can load it ahead of the command.
    entryPoints: { main: 'src/cli/main.ts', parts: 'src/main.ts' },
    outdir: join(folder, 'cli'),
    splitting: true,
    plugins: [inPlace],
  });
  const certificate = await build({
    ...options,
    entryPoints: ['src/local-cluster/certificate.mjs'],
    outfile: join(folder, 'local-cluster/certificate.mjs'),
  });
  const inputs = [program, certificate].flatMap(({ metafile }) => Object.keys(metafile.inputs));
  await writeFile(join(folder, 'THIRD-PARTY.txt'), await notices(inputs));
}

/**
 * A module that reads files from beside itself finds them where they are in dist/, not beside the bundle, which lies one
 * folder deep; and a library that it requires by hand, to load it late, is in the bundle. A CommonJS package that is loaded
 * by `import()` has no names in a bundle of several files: here the one such package is required, and a second stops the build.
 */
const inPlace = {
  name: 'in place',
  setup(bundler) {
    bundler.onResolve({ filter: /^[^./]/ }, async ({ path, kind, pluginData, ...how }) => {
      if (kind !== 'dynamic-import' || pluginData === 'seen' || path.startsWith('node:')) return undefined;
      const found = await bundler.resolve(path, { ...how, kind, pluginData: 'seen' });
      if (found.external || (await isModule(found.path))) return found;
      return { errors: [{ text: `import('${path}') of a CommonJS package has no names in the bundle: require it` }] };
    });
    bundler.onLoad({ filter: /\.ts$/ }, async ({ path }) => {
      if (!path.startsWith(source)) return undefined;
      const place = `../${relative(source, path)}`;
      const text = await readFile(path, 'utf8');
      return {
        loader: 'ts',
        contents: text
          .replaceAll('createRequire(import.meta.url)(', 'require(')
          .replaceAll("await import('yaml')", "require('yaml')")
          .replaceAll('import.meta.dirname', `(import.meta.dirname + ${JSON.stringify(`/${join(place, '..')}`)})`)
          .replaceAll('import.meta.url', `new URL(${JSON.stringify(place)}, import.meta.url).href`),
      };
    });
  },
};

/** By its ending, or by the nearest package.json that says so. */
async function isModule(file) {
  if (/\.[cm]js$/.test(file)) return file.endsWith('.mjs');
  for (let folder = dirname(file); folder !== dirname(folder); folder = dirname(folder)) {
    const manifest = join(folder, 'package.json');
    if (existsSync(manifest)) return JSON.parse(await readFile(manifest, 'utf8')).type === 'module';
  }
  return false;
}

/** Name, version and licence of each package that a bundle holds, as their licences demand. */
async function notices(inputs) {
  const folders = new Set(inputs.map((file) => /^.*node_modules\/(?:@[^/]+\/)?[^/]+/.exec(file)?.[0]).filter(Boolean));
  const parts = await Promise.all(
    [...folders].map(async (folder) => {
      const { name, version, license } = JSON.parse(await readFile(join(root, folder, 'package.json'), 'utf8'));
      const files = (await readdir(join(root, folder))).filter((file) => /^(licen[cs]e|notice|copying)/i.test(file)).sort();
      const texts = await Promise.all(files.map((file) => readFile(join(root, folder, file), 'utf8')));
      return [`${name} ${version} (${license})`, ...texts.map((text) => text.trim())].join('\n\n');
    }),
  );
  return `${parts.sort().join(`\n\n${'-'.repeat(72)}\n\n`)}\n`;
}
