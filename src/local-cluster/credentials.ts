import { randomBytes } from 'node:crypto';
import { mkdir, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { dirname, resolve } from 'node:path';
import { stringify } from 'yaml';

export interface Credentials {
  readonly certificate: string;
  readonly privateKey: string;
  readonly token: string;
}

/** A certificate for loopback that is its own authority, and a token; both live as long as the cluster. */
export async function makeCredentials(): Promise<Credentials> {
  const { generate } = await import('selfsigned');
  const yesterday = new Date(Date.now() - 86_400_000);
  const pair = await generate([{ name: 'commonName', value: 'windlass-local' }], {
    keyType: 'ec',
    curve: 'P-256',
    algorithm: 'sha256',
    notBeforeDate: yesterday,
    notAfterDate: new Date(Date.now() + 10 * 365 * 86_400_000),
    extensions: [
      { name: 'basicConstraints', cA: true, critical: true },
      { name: 'keyUsage', digitalSignature: true, keyEncipherment: true, keyCertSign: true, critical: true },
      { name: 'extKeyUsage', serverAuth: true },
      {
        name: 'subjectAltName',
        altNames: [
          { type: 2, value: 'localhost' },
          { type: 7, ip: '127.0.0.1' },
        ],
      },
    ],
  });
  return { certificate: pair.cert, privateKey: pair.private, token: randomBytes(32).toString('base64url') };
}

function kubeconfigText(url: string, { certificate, token }: Credentials): string {
  const name = 'windlass-local';
  return stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name, cluster: { server: url, 'certificate-authority-data': Buffer.from(certificate).toString('base64') } }],
    users: [{ name, user: { token } }],
    contexts: [{ name, context: { cluster: name, user: name, namespace: 'default' } }],
    'current-context': name,
    preferences: {},
  });
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
