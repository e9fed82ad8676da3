import { readFile } from 'node:fs/promises';
import { request } from 'node:https';
import { parse } from 'yaml';

/** A few plain calls to the cluster of a kubeconfig, apart from Windlass's own client: the proof should not share its faults. */
export async function openKube(kubeconfig) {
  const config = parse(await readFile(kubeconfig, 'utf8'));
  const { server, 'certificate-authority-data': ca } = config.clusters[0].cluster;
  const { token } = config.users[0].user;

  async function call(method, path, body) {
    const text = body === undefined ? undefined : JSON.stringify(body);
    const answer = await new Promise((resolve, reject) => {
      const sent = request(new URL(path, server), {
        method,
        ca: Buffer.from(ca, 'base64'),
        headers: {
          authorization: `Bearer ${token}`,
          accept: 'application/json',
          ...(text && { 'content-type': 'application/json' }),
        },
      });
      sent.once('error', reject).once('response', resolve).end(text);
    });
    let content = '';
    for await (const chunk of answer.setEncoding('utf8')) content += chunk;
    if (answer.statusCode >= 300) throw new Error(`${method} ${path} answered ${answer.statusCode}: ${content}`);
    return JSON.parse(content);
  }

  return {
    createNamespace: (name) => call('POST', '/api/v1/namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name } }),
    /** `kind/name` of every object that an instance is made of. */
    async instanceObjects(namespace) {
      const names = [];
      for (const path of [
        `namespaces/${namespace}/pods`,
        `namespaces/${namespace}/persistentvolumeclaims`,
        'persistentvolumes',
      ]) {
        const { items } = await call('GET', `/api/v1/${path}`);
        names.push(...items.map((item) => `${path.split('/').at(-1)}/${item.metadata.name}`));
      }
      return names;
    },
  };
}
