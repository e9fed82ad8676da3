import { createHash } from 'node:crypto';
import { join } from 'node:path';
import { CappedLog } from './capped-log.ts';
import { readIfThere, safeFolder, writeAtomic } from './files.ts';
import type { Identity } from './identity.ts';
import { captureMasked } from './output.ts';
import type { Processes } from './processes.ts';
import { Exit, type Settings } from './settings.ts';

/** What is kept of the output; the container log has all of it. */
const keptBytes = 64 * 1024;

export const prepareLogPath = (settings: Settings): string => join(settings.runDir, 'prepare.log');

/**
 * Runs the prepare script once per workspace and script. The marker lies in the workspace, not in the Pod: a rebuilt Pod
 * on a retained claim must not clone over the user's work. It is written after success only, so that a container that
 * died half-way prepares again.
 */
export async function prepareOnce(settings: Settings, identity: Identity, processes: Processes): Promise<void> {
  const path = join(settings.optDir, 'prepare.sh');
  const script = readIfThere(path);
  if (script === undefined) return;
  const digest = createHash('sha256').update(script).digest('hex');
  const marker = join(settings.workspace, '.windlass', 'prepared');
  if (readIfThere(marker)?.toString().trim() === digest) return;
  const exitCode = await run(path, settings, identity, processes);
  if (exitCode !== 0) throw new Exit(exitCode, `prepare failed with exit code ${exitCode}`);
  safeFolder(join(settings.workspace, '.windlass'));
  writeAtomic(marker, `${digest}\n`, 0o644);
}

async function run(path: string, settings: Settings, identity: Identity, processes: Processes): Promise<number> {
  const log = new CappedLog(prepareLogPath(settings), keptBytes);
  // One stream for both, so that the log keeps the order in which things were written.
  const running = await processes.start(['/bin/sh', '-c', 'exec /bin/sh "$1" 2>&1', 'sh', path], {
    cwd: settings.workspace,
    env: identity.childEnv,
    stdin: false,
  });
  const sink = (piece: Buffer) => {
    process.stdout.write(piece);
    log.append(piece);
  };
  running.stderr.resume();
  await captureMasked(running.stdout, identity.mask, running.ended, sink);
  return (await running.ended).exitCode;
}
