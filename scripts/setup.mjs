import { pathToFileURL } from 'node:url';
import { requireNode } from './lib/node-version.mjs';
import { installPackages, packagesMissing } from './lib/packages.mjs';
import { Failure } from './lib/run-command.mjs';
import { aptCommand, installTools, mayInstall, missingTools } from './lib/tools.mjs';

/**
 * Makes this machine able to run what was asked for: npm packages always, `tools` (system programs) when they are
 * named. Says on stderr what it is going to install. With `install: false`, or when it may not install, a missing
 * required tool ends with exit code 2 and the command to type. A sandbox that is missing is required only in CI: without
 * it Pods run as plain processes.
 */
export async function setup({ install = true, tools = [] } = {}) {
  const packages = await packagesMissing();
  const missing = missingTools(tools);
  const how = install && missing.length > 0 ? await mayInstall() : undefined;
  const optional = missing.filter((tool) => tool === 'bubblewrap' && process.env.CI !== 'true');
  const required = missing.filter((tool) => !optional.includes(tool));

  if (required.length > 0 && how === undefined) throw new Failure(refusal(required, missing), 2);
  if (packages && !install) throw new Failure('The npm packages are missing or out of date. Type: npm ci', 2);

  const list = [
    ...(how === undefined ? [] : missing.map((tool) => `${tool} (${how.name})`)),
    ...(packages ? ['npm packages (npm ci)'] : []),
  ];
  if (list.length > 0) say(`will install: ${list.join(', ')}. \`--no-install\` refuses.`);
  if (how !== undefined) await installTools(missing, how, required);
  if (packages) await installPackages();
  if (missingTools(optional).length > 0) {
    say(
      `bubblewrap is not installed: Pods of the local cluster run as plain processes (path mode). To isolate them: ${aptCommand(optional)}`,
    );
  }
}

function refusal(required, missing) {
  return `${required.join(' and ')} ${required.length > 1 ? 'are' : 'is'} missing and may not be installed from here. Type: ${aptCommand(missing)}`;
}

function say(text) {
  process.stderr.write(`Windlass: ${text}\n`);
}

if (import.meta.url === pathToFileURL(process.argv[1] ?? '').href) {
  requireNode();
  try {
    await setup({ install: !process.argv.includes('--no-install'), tools: ['redis-server', 'bubblewrap'] });
  } catch (error) {
    if (!(error instanceof Failure)) throw error;
    say(error.message);
    process.exitCode = error.exitCode;
  }
}
