import { existsSync } from 'node:fs';
import { readFile } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { root } from './paths.mjs';
import { Failure, run } from './run-command.mjs';

/**
 * True when node_modules is not what the lock file says. npm writes its own list of what it installed as its last step,
 * so an interrupted installation is missing too, and one that the user made by hand counts.
 */
export async function packagesMissing() {
  const wanted = await lockedPackages(join(root, 'package-lock.json'));
  const installed = await lockedPackages(join(root, 'node_modules/.package-lock.json')).catch((error) => {
    if (error.code === 'ENOENT' || error instanceof SyntaxError) return {};
    throw error;
  });
  return Object.entries(wanted).some(
    ([path, entry]) => path !== '' && !entry.optional && installed[path]?.version !== entry.version,
  );
}

async function lockedPackages(file) {
  return JSON.parse(await readFile(file, 'utf8')).packages ?? {};
}

/** The packages of the lock file, development ones included whatever NODE_ENV says. */
export async function installPackages() {
  const [program, ...args] = npm();
  const code = await run(program, [...args, 'ci', '--include=dev', '--no-audit', '--no-fund', '--loglevel=error'], {
    check: false,
  });
  if (code !== 0) throw new Failure('The npm packages could not be installed (see above). Type: npm ci', 1);
}

/** The npm that belongs to this Node: under nvm or /opt another one may come first on the PATH. */
export function npm() {
  const given = process.env.npm_execpath;
  if (given !== undefined && /npm-cli\.c?js$/.test(given)) return [process.execPath, given];
  const own = join(dirname(process.execPath), '../lib/node_modules/npm/bin/npm-cli.js');
  return existsSync(own) ? [process.execPath, own] : ['npm'];
}
