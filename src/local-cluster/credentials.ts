import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { get } from 'node:https';
import { dirname, resolve } from 'node:path';
import { Worker } from 'node:worker_threads';

export interface Credentials {
  readonly certificate: string;
  readonly privateKey: string;
  readonly token: string;
}

/** A certificate for loopback that is its own authority, and a token; both live as long as the cluster. */
export async function makeCredentials(): Promise<Credentials> {
  const worker = new Worker(new URL('./certificate.mjs', import.meta.url));
  const [pair] = (await once(worker, 'message')) as [Pick<Credentials, 'certificate' | 'privateKey'>];
  return { ...pair, token: randomBytes(32).toString('base64url') };
}

/** Plain scalars, and a quoted token, which may look like anything: nothing here needs a library that every start would have to load. */
function kubeconfigText(url: string, { certificate, token }: Credentials): string {
  const authority = Buffer.from(certificate).toString('base64');
  return `apiVersion: v1
kind: Config
clusters:
  - name: windlass-local
    cluster:
      server: ${url}
      certificate-authority-data: ${authority}
users:
  - name: windlass-local
    user:
      token: ${JSON.stringify(token)}
contexts:
  - name: windlass-local
    context:
      cluster: windlass-local
      user: windlass-local
      namespace: default
current-context: windlass-local
preferences: {}
`;
}

/** Readable by its owner only, and never half-written: a reader sees the old file or the new one. */
export async function writeKubeconfig(path: string, url: string, credentials: Credentials): Promise<string> {
  const file = resolve(path);
  const draft = `${file}.${process.pid}.tmp`;
  await mkdir(dirname(file), { recursive: true });
  await writeFile(draft, kubeconfigText(url, credentials), { mode: 0o600 });
  await rename(draft, file);
  return file;
}

/** Whose kubeconfig is in the file: nobody's (no file, or an ended cluster's), a running local cluster's, or another's. */
export async function ownerOfKubeconfig(file: string): Promise<'nobody' | 'running' | 'another'> {
  const text = await textOf(file);
  if (text === '') return 'nobody';
  const found = (pattern: RegExp): string => pattern.exec(text)?.[1] ?? '';
  const url = found(/^ {6}server: (https:\S+)$/m);
  const authority = found(/^ {6}certificate-authority-data: (\S+)$/m);
  if (!text.includes('current-context: windlass-local') || url === '' || authority === '') return 'another';
  return (await answers(url, Buffer.from(authority, 'base64').toString())) ? 'running' : 'nobody';
}

/** Only the cluster that made the certificate has its key: whoever has the port now does not answer for it. */
function answers(url: string, ca: string): Promise<boolean> {
  return new Promise((resolved) => {
    const request = get(`${url}/readyz`, { ca, timeout: 2000, agent: false }, (response) => {
      response.resume();
      resolved(true);
    });
    request.on('timeout', () => request.destroy(new Error('no answer')));
    request.on('error', () => resolved(false));
  });
}

/** Removes the kubeconfig unless another cluster has written its own there meanwhile. */
export async function removeKubeconfig(file: string, { token }: Credentials): Promise<void> {
  if ((await textOf(file)).includes(token)) await rm(file, { force: true });
}

const textOf = (file: string): Promise<string> =>
  readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return '';
    throw error;
  });
