// Entry of the npm scripts. Nothing but the version check may be imported statically: everything else needs a Node that
// passed it, and packages that are there only after the set-up.
import { requireNode } from './lib/node-version.mjs';

requireNode();
import('./lib/commands.mjs')
  .then(({ main }) => main(process.argv.slice(2)))
  .then((code) => {
    process.exitCode = code;
  })
  .catch((error) => {
    process.stderr.write(`Windlass: ${error.exitCode === undefined ? error.stack : error.message}\n`);
    process.exitCode = error.exitCode === undefined ? 1 : error.exitCode;
  });
