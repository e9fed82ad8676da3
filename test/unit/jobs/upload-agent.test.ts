import { once } from 'node:events';
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Readable, type Writable } from 'node:stream';
import { afterEach, beforeEach, expect, it, vi } from 'vitest';
import { uploadProof, uploadWanted } from '../../../src/agent/upload.ts';
import { uploadAgent } from '../../../src/jobs/upload-agent.ts';
import type { ExecOptions } from '../../../src/kubernetes/port.ts';
import { sha256 } from '../../../src/names.ts';

let broken = false;
vi.mock('node:fs', async (original) => {
  const fs = await original<typeof import('node:fs')>();
  const createReadStream = (path: string) => (broken ? noMoreFiles() : fs.createReadStream(path));
  return { ...fs, createReadStream };
});
const noMoreFiles = () =>
  new Readable({
    // Before anybody reads, as the opening of a file is.
    construct: (done) => done(Object.assign(new Error('EMFILE: too many open files'), { code: 'EMFILE' })),
  });

let dir: string;
beforeEach(async () => {
  dir = await mkdtemp(join(tmpdir(), 'windlass-upload-'));
  await writeFile(join(dir, 'agent'), bytes);
});
afterEach(async () => {
  broken = false;
  await rm(dir, { recursive: true, force: true });
});

const bytes = 'the agent';
type Pod = (stdin: Readable, stdout: Writable) => Promise<{ exitCode: number; stdout: string; stderr: string }>;

/** An exec that takes a while to open, as all do: only then somebody listens to its stdin. */
async function upload(pod: Pod): Promise<void> {
  const exec = async (_target: object, _command: readonly string[], { stdin, stdout }: ExecOptions) => {
    await new Promise((resolve) => setImmediate(() => setImmediate(resolve)));
    return pod(stdin as Readable, stdout as Writable);
  };
  const profile = { agent: { binaries: { 'linux/amd64': 'agent' } }, platform: 'linux/amd64', budgets: { bootstrap: 60 } };
  const context = { cluster: { exec }, profile: { ...profile, mainContainer: 'agent' }, dir, identity: { hash: 'abc' } };
  const place = { pod: 'windlass-abc', signal: new AbortController().signal };
  await uploadAgent(context as unknown as Parameters<typeof uploadAgent>[0], place);
}

const takes: Pod = async (stdin, stdout) => {
  stdout.write(uploadWanted);
  let text = '';
  for await (const chunk of stdin) text += chunk;
  stdout.write(uploadProof(sha256(text)));
  return { exitCode: 0, stdout: '', stderr: '' };
};

/** From the second upload on the digest is known. */
const breakAfterFirst = async () => {
  await upload(takes);
  broken = true;
};

it('opens no file where the agent is already, so that nothing of it can fail', async () => {
  await breakAfterFirst();
  await upload(async (_stdin, stdout) => {
    stdout.write(uploadProof(sha256(bytes)));
    return { exitCode: 0, stdout: '', stderr: '' };
  });
});

it('a worker that has no file left fails this exec, and nothing else', async () => {
  await breakAfterFirst();
  const breaks: Pod = async (stdin, stdout) => {
    const error = once(stdin, 'error').then(([reason]) => reason);
    stdout.write(uploadWanted);
    throw await error;
  };
  await expect(upload(breaks)).rejects.toThrow('EMFILE');
});
