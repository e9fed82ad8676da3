import { bootstrap } from './bootstrap.ts';
import { entry } from './entry.ts';
import { requestRekey } from './rekey.ts';
import { relay } from './relay.ts';
import { addressOf, Exit, exitCodes, processEnv, settingsOf } from './settings.ts';

/** argv[2]: `entry` is the container's program; `bootstrap`, `rekey` and `relay` come in by pods/exec. */
async function main(mode: string | undefined): Promise<void> {
  const settings = settingsOf(processEnv);
  if (mode === 'entry') return entry(settings);
  if (mode === 'bootstrap') {
    const digest = await bootstrap(settings, process.stdin);
    process.stdout.write(`windlass: bootstrapped ${digest}\n`);
  } else if (mode === 'rekey') process.stdout.write(await requestRekey(settings));
  else if (mode === 'relay') await relay(addressOf(processEnv), process.stdin, process.stdout);
  else throw new Exit(exitCodes.usage, 'usage: agent.mjs entry|bootstrap|rekey|relay');
  // Stdin may stay open for ever (exec v4), and would keep the process.
  process.exit(0);
}

function fail(thrown: unknown): never {
  const expected = thrown instanceof Exit;
  const text = expected ? thrown.message : ((thrown as Error | undefined)?.stack ?? String(thrown));
  process.stderr.write(`windlass: ${text}\n`);
  process.exit(expected ? thrown.code : exitCodes.software);
}

process.on('uncaughtException', fail);
main(process.argv[2]).catch(fail);
