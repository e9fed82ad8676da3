import { createReadStream, type ReadStream } from 'node:fs';
import { PassThrough, Writable } from 'node:stream';
import { uploadCommand, uploadProof, uploadWanted } from '../agent/upload.ts';
import { WindlassError } from '../errors.ts';
import { sanitize } from '../kubernetes/sanitize.ts';
import { agentFile } from './agent-program.ts';
import type { StageContext } from './stage.ts';

/**
 * Delivery upload: the agent's bytes through one exec, streamed (no copy of them in memory), digest-checked in the Pod
 * before they get their name, and not sent at all where they are already. The exit code alone proves nothing (C58).
 */
export async function uploadAgent(
  { cluster, profile, dir, identity }: Pick<StageContext, 'cluster' | 'profile' | 'dir' | 'identity'>,
  { pod, signal }: { readonly pod: string; readonly signal: AbortSignal },
): Promise<void> {
  const file = await agentFile(dir, profile);
  const stdin = new PassThrough();
  let source: ReadStream | undefined;
  // Opened once it is wanted: an error before the exec listens to its stdin would have nobody to take it, and end the worker.
  const said = answers(() => {
    source = createReadStream(file.path);
    // A file that breaks off must not look like its end.
    source.on('error', (error) => stdin.destroy(error));
    source.pipe(stdin);
  });
  try {
    const result = await cluster.exec({ pod, container: profile.mainContainer }, uploadCommand(file), {
      stdin,
      stdout: said.sink,
      stderr: said.errors,
      signal,
      instance: identity.hash,
      timeoutMs: profile.budgets.bootstrap * 1000,
    });
    if (result.exitCode === 0 && said.text().includes(uploadProof(file.sha256))) return;
    throw failure(result.exitCode, said.errorText());
  } finally {
    source?.destroy();
    stdin.destroy();
  }
}

function failure(exitCode: number, words: string): WindlassError {
  const evidence = { exitCode, stderr: sanitize(words, 1000) };
  const code = exitCode === 127 ? 'agent_runtime_missing' : 'exec_lost';
  const what = words === '' ? 'no proof that it is there' : sanitize(words, 300);
  return new WindlassError(code, `Bringing the agent into the Pod ended with exit code ${exitCode}: ${what}`, { evidence });
}

const mostText = 4096;

/** The few lines that the command says; `wanted` once it asks for the bytes. */
function answers(wanted: () => void) {
  let [out, errors] = ['', ''];
  let asked = false;
  const keep = (take: (text: string) => void) =>
    new Writable({
      write(chunk: Buffer, _encoding, done) {
        take(chunk.toString('utf8'));
        done();
      },
    });
  const sink = keep((text) => {
    out = (out + text).slice(-mostText);
    if (asked || !out.includes(uploadWanted)) return;
    asked = true;
    wanted();
  });
  const errorSink = keep((text) => {
    errors = (errors + text).slice(-mostText);
  });
  return { sink, errors: errorSink, text: () => out, errorText: () => errors.trim() };
}
