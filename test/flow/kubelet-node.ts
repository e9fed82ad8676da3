import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Readable } from 'node:stream';
import { startNode } from '../../src/local-cluster/kubelet/node.ts';
import { createStore } from '../../src/local-cluster/store.ts';
import type { KubeObject, NodeRuntime, Store } from '../../src/local-cluster/types.ts';

export interface Outcome {
  readonly code: number;
  readonly out: string;
  readonly err: string;
}

const namespace = 'default';

export async function text(stream: Readable): Promise<string> {
  const chunks: Buffer[] = [];
  for await (const chunk of stream) chunks.push(chunk as Buffer);
  return Buffer.concat(chunks).toString();
}

/** Polls until `value` gives something; fails after 30 s with what was seen last. */
export async function eventually<T>(
  what: string,
  value: () => Promise<T | undefined> | T | undefined,
  last?: () => unknown,
): Promise<T> {
  const deadline = performance.now() + 30_000;
  for (;;) {
    const found = await value();
    if (found !== undefined) return found;
    if (performance.now() > deadline) throw new Error(`${what} did not come: ${JSON.stringify(last?.())}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

/** A node over a bare store: what the API server would write, the test writes. */
export async function startKubelet(sandbox: 'auto' | 'none', images: Record<string, string> = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'windlass-kubelet-'));
  const store = createStore();
  const create = (resource: string, kind: string, name: string, rest: Record<string, unknown> = {}) =>
    store.create(resource, { apiVersion: 'v1', kind, metadata: { name, namespace }, ...rest });
  store.create('namespaces', { apiVersion: 'v1', kind: 'Namespace', metadata: { name: namespace } });
  for (const [name, volumeBindingMode] of [
    ['standard', 'WaitForFirstConsumer'],
    ['immediate', 'Immediate'],
  ] as const) {
    const rest = { volumeBindingMode, reclaimPolicy: 'Delete', provisioner: 'x' };
    store.create('storageclasses', { apiVersion: 'storage.k8s.io/v1', kind: 'StorageClass', metadata: { name }, ...rest });
  }
  const logged: string[] = [];
  const node = await startNode({ store, dataDir: folder, images, sandbox, log: (line) => logged.push(line) });
  return {
    store,
    node,
    logged,
    dataDir: folder,
    create,
    ...podHelpers(store, node, create),
    async close() {
      await node.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

type Create = (resource: string, kind: string, name: string, rest?: Record<string, unknown>) => KubeObject;

function podHelpers(store: Store, node: NodeRuntime, create: Create) {
  const get = (name: string) => store.get('pods', namespace, name);
  const ref = (name: string, container = 'main') => ({ podUid: get(name)?.metadata.uid ?? '', container });
  return {
    get,
    ref,
    /** A Pod of one container `main` that runs a shell script, unless `spec` says otherwise. */
    run(name: string, script: string, container: Record<string, unknown> = {}, spec: Record<string, unknown> = {}): KubeObject {
      const main = { name: 'main', image: 'busybox', command: ['sh', '-c', script], ...container };
      return create('pods', 'Pod', name, { spec: { containers: [main], terminationGracePeriodSeconds: 5, ...spec } });
    },
    until: (name: string, passes: (pod: KubeObject) => unknown): Promise<KubeObject> =>
      eventually(
        `the state of ${name}`,
        () => {
          const pod = get(name);
          return pod && passes(pod) ? pod : undefined;
        },
        () => get(name)?.status,
      ),
    untilGone: (name: string) =>
      eventually(
        `the end of ${name}`,
        () => (get(name) === undefined ? true : undefined),
        () => get(name),
      ),
    event: (name: string, reason: string): Promise<KubeObject> =>
      eventually(`event ${reason} of ${name}`, () =>
        store.list('events', namespace).find((event) => event.involvedObject.name === name && event.reason === reason),
      ),
    async exec(name: string, command: string[], input = ''): Promise<Outcome> {
      const run = await node.exec(ref(name), command, { stdin: true, tty: false });
      run.stdin?.end(input);
      const [out, err, { exitCode }] = await Promise.all([text(run.stdout), text(run.stderr as Readable), run.exit]);
      return { code: exitCode, out, err };
    },
    async logs(name: string, options: { previous?: boolean; follow?: boolean; tailLines?: number; container?: string } = {}) {
      const { container, ...rest } = options;
      const signal = new AbortController().signal;
      return text(await node.logs(ref(name, container), { follow: false, previous: false, timestamps: false, signal, ...rest }));
    },
    /** What the API server does for a graceful delete. */
    remove(name: string, grace: number): void {
      store.update('pods', namespace, name, (pod) => {
        pod.metadata.deletionTimestamp = new Date(Date.now() + grace * 1000).toISOString();
        pod.metadata.deletionGracePeriodSeconds = grace;
      });
    },
  };
}

export type Kubelet = Awaited<ReturnType<typeof startKubelet>>;

export function condition(pod: KubeObject, type: string): string | undefined {
  return pod.status?.conditions?.find((one: { type: string }) => one.type === type)?.status;
}
