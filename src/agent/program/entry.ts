import { once } from 'node:events';
import { existsSync, type FSWatcher, rmSync, watch } from 'node:fs';
import { join } from 'node:path';
import { Auth } from './auth.ts';
import { safeFolder, writeAtomic } from './files.ts';
import { loadIdentity } from './identity.ts';
import { Instances } from './instances.ts';
import { prepareOnce } from './prepare.ts';
import { Processes } from './processes.ts';
import { listenForRekey } from './rekey.ts';
import { createAgentServer } from './server.ts';
import { addressOf, type Settings } from './settings.ts';

const pollMs = 1000;

/** The main container's program: waits for bootstrap, prepares, serves until SIGTERM. */
export async function entry(settings: Settings): Promise<void> {
  process.umask(0o022);
  const processes = new Processes(settings.runDir);
  process.once('SIGTERM', () => void processes.stopAll().finally(() => process.exit(0)));
  process.once('SIGINT', () => process.kill(process.pid, 'SIGTERM'));
  safeFolder(settings.runDir);
  const prepared = join(settings.runDir, 'prepared');
  // Left by this container before it was restarted; until it serves again it is not ready.
  rmSync(prepared, { force: true });
  await startMarker(settings.runDir);
  const identity = loadIdentity(settings);
  const address = addressOf(identity.ownEnv);
  try {
    await prepareOnce(settings, identity, processes);
  } catch (error) {
    // Ended by our SIGTERM, which ends this process too: not the script's failure.
    if (processes.stopping) return;
    throw error;
  }
  const auth = new Auth(identity.nonce, settings.runDir);
  const instances = new Instances(settings, identity, processes);
  await listenForRekey(settings, auth);
  const server = createAgentServer({ settings, auth, instances, processes });
  server.listen(address);
  await once(server, 'listening');
  // After the port is open: the startup probe looks for it, and the worker connects as soon as the probe passes.
  writeAtomic(prepared, '', 0o644);
}

/** Settles once bootstrap is complete. The poll is for folders that cannot be watched. */
async function startMarker(runDir: string): Promise<void> {
  const marker = join(runDir, 'start');
  let watcher: FSWatcher | undefined;
  await new Promise<void>((resolve) => {
    const look = () => {
      if (!existsSync(marker)) return;
      clearInterval(poll);
      resolve();
    };
    const poll = setInterval(look, pollMs);
    try {
      watcher = watch(runDir, look).on('error', () => watcher?.close());
    } catch (error) {
      process.stderr.write(`windlass: polling for the start marker: ${(error as Error).message}\n`);
    }
    look();
  });
  watcher?.close();
}
