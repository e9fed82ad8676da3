import { randomBytes } from 'node:crypto';
import { CoreV1Api, KubeConfig } from '@kubernetes/client-node';

/** The cluster suites run on the Kubernetes of $KUBECONFIG; without it they fail, they are not skipped. */
export function realKubeconfig(): string {
  const path = process.env.KUBECONFIG;
  if (!path) throw new Error('Set KUBECONFIG to the kubeconfig of a Kubernetes that may be written to.');
  return path;
}

/** A namespace of this test's own. */
export async function createNamespace(what: string): Promise<{ name: string; remove(): Promise<void> }> {
  const config = new KubeConfig();
  config.loadFromFile(realKubeconfig());
  const api = config.makeApiClient(CoreV1Api);
  const name = `windlass-${what}-${randomBytes(4).toString('hex')}`;
  await api.createNamespace({ body: { metadata: { name, labels: { 'pod-security.kubernetes.io/enforce': 'restricted' } } } });
  return {
    name,
    async remove() {
      await api.deleteNamespace({ name });
    },
  };
}
