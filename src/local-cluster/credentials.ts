import { randomBytes } from 'node:crypto';
import { once } from 'node:events';
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
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

/** Removes the kubeconfig unless another cluster has written its own there meanwhile. */
export async function removeKubeconfig(file: string, { token }: Credentials): Promise<void> {
  const text = await readFile(file, 'utf8').catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return '';
    throw error;
  });
  if (text.includes(token)) await rm(file, { force: true });
}
