import { randomBytes } from 'node:crypto';
import { inject } from 'vitest';
import { clusterSchema } from '../../src/config/schema.ts';
import { createClusters } from '../../src/kubernetes/clusters.ts';
import { sharedLabels } from '../../src/kubernetes/ownership.ts';
import type { Cluster } from '../../src/kubernetes/port.ts';
import type { KubeObject } from '../../src/local-cluster/types.ts';
import { startCluster } from '../support/cluster.ts';
import { connectHttp, eventually, type KubeHttp, type Reply } from '../support/kube-http.ts';
import { realKubeconfig } from '../support/real-cluster.ts';

declare module 'vitest' {
  export interface ProvidedContext {
    /** Set by the vitest project: `flow` runs on the embedded cluster, `cluster` on the one of $KUBECONFIG. */
    kubernetes: 'embedded' | 'real';
  }
}

/** Changes that the embedded cluster keeps here: few, so that a test can outrun them. */
export const keptChanges = 200;

export interface Target extends KubeHttp {
  /** Pods are sandboxed: always on a real one, and where the embedded one found bubblewrap working. */
  readonly sandboxed: boolean;
  /** What the product itself uses. */
  readonly cluster: Cluster;
  readonly kubeconfig: string;
  readonly namespace: string;
  /** Path of the namespace. */
  readonly home: string;
  readonly image: string;
  readonly classes: { readonly immediate: string; readonly firstConsumer: string };
  create(resource: string, body: object): Promise<KubeObject>;
  /** As soon as the test holds; the object is undefined once it is gone. */
  until(path: string, test: (object: KubeObject) => unknown, seconds?: number): Promise<KubeObject>;
  gone(path: string, seconds?: number): Promise<void>;
  /** Reasons of the events about this object, as soon as one of them is `reason`. */
  event(uid: string, reason: string): Promise<KubeObject>;
  close(): Promise<void>;
}

async function openCluster() {
  if (inject('kubernetes') === 'real') {
    return { kubeconfig: realKubeconfig(), sandboxed: true, close: async () => undefined };
  }
  const cluster = await startCluster({ historySize: keptChanges });
  return { kubeconfig: cluster.kubeconfig, sandboxed: cluster.mode.kind === 'sandbox', close: () => cluster.close() };
}

/** The reply's object; anything but success fails the test with the server's own words. */
export function done({ code, body }: Reply): KubeObject {
  if (code >= 300) throw new Error(`${code}: ${JSON.stringify(body)}`);
  return body;
}

/** A namespace of this file's own on the Kubernetes of this vitest project. */
export async function openTarget(labels: Record<string, string> = {}): Promise<Target> {
  const { kubeconfig, sandboxed, close } = await openCluster();
  const http = await connectHttp(kubeconfig);
  const namespace = `windlass-conformance-${randomBytes(4).toString('hex')}`;
  const home = `/api/v1/namespaces/${namespace}`;
  done(await http.call('POST', '/api/v1/namespaces', { metadata: { name: namespace, labels } }));
  const connection = clusterSchema.parse({ authMode: 'kubeconfig', kubeconfigPath: kubeconfig, namespace });
  const quiet = { debug: () => {}, info: () => {}, warn: () => {} };
  const clusters = createClusters({ main: connection }, { installation, dir: '/', log: quiet });

  const found = (path: string, test: (object: KubeObject) => unknown, seconds: number) =>
    eventually(async () => {
      const reply = await http.call('GET', path);
      return reply.code === 200 && test(reply.body) ? (reply.body as KubeObject) : undefined;
    }, seconds);
  // Pods are refused until their account is there.
  await found(`${home}/serviceaccounts/default`, () => true, 30);
  return {
    ...http,
    sandboxed,
    cluster: clusters.get('main'),
    kubeconfig,
    namespace,
    home,
    image: 'busybox:local',
    classes: { immediate: 'immediate', firstConsumer: 'standard' },
    create: async (resource, body) => done(await http.call('POST', `${home}/${resource}`, body)),
    until: (path, test, seconds = 60) => found(`${home}/${path}`, test, seconds),
    async gone(path, seconds = 60) {
      await eventually(async () => ((await http.call('GET', `${home}/${path}`)).code === 404 ? true : undefined), seconds);
    },
    event: (uid, reason) =>
      eventually(async () => {
        const { body } = await http.call('GET', `${home}/events?fieldSelector=involvedObject.uid%3D${uid}`);
        return (body.items as KubeObject[]).find((event) => event.reason === reason);
      }, 60),
    async close() {
      await http.call('DELETE', `/api/v1/namespaces/${namespace}`);
      await clusters.close();
      await http.agent.destroy();
      await close();
    },
  };
}

const installation = 'conformance';

/** A Pod of this installation with one container `main` that runs a shell script. */
export function podOf(target: Pick<Target, 'image'>, name: string, script: string, spec: object = {}, container: object = {}) {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, labels: sharedLabels(installation, 'workspace') },
    spec: {
      restartPolicy: 'Never',
      terminationGracePeriodSeconds: 1,
      automountServiceAccountToken: false,
      containers: [{ name: 'main', image: target.image, command: ['sh', '-c', script], ...container }],
      ...spec,
    },
  };
}

export const claimOf = (name: string, storageClassName: string) => ({
  metadata: { name },
  spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '16Mi' } }, storageClassName },
});

export const isReady = (pod: KubeObject): boolean =>
  pod.status.conditions?.some((one: { type: string; status: string }) => one.type === 'Ready' && one.status === 'True');
