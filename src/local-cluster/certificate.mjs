// A worker thread of credentials.ts: the library takes as long to load as the rest of the cluster, on a core of its own.
import { parentPort } from 'node:worker_threads';
import { generate } from 'selfsigned';

const yesterday = new Date(Date.now() - 86_400_000);
const { cert, private: privateKey } = await generate([{ name: 'commonName', value: 'windlass-local' }], {
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
parentPort.postMessage({ certificate: cert, privateKey });
