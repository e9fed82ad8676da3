import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { startApiServer } from './api/server.ts';
import { openAuditLog } from './audit.ts';
import { startControllers } from './controllers.ts';
import { type Credentials, makeCredentials, removeKubeconfig, writeKubeconfig } from './credentials.ts';
import { loadFaults } from './faults.ts';
import { seed } from './seed.ts';
import { type ClusterStore, createStore } from './store.ts';
import type { LocalCluster, LocalClusterOptions, NodeRuntime, Store } from './types.ts';

type Close = () => Promise<void> | void;

export interface NodeOptions {
  readonly store: Store;
  readonly dataDir: string;
  readonly images: Readonly<Record<string, string>>;
  readonly sandbox: 'auto' | 'none';
  readonly log: (message: string) => void;
}
export type StartNode = (options: NodeOptions) => Promise<NodeRuntime>;

/** Resolves once the server says it is ready, over the connection that its users will make. */
function untilReady(port: number, { certificate }: Credentials): Promise<void> {
  return new Promise((resolve, reject) => {
    const call = request({ host: '127.0.0.1', port, path: '/readyz', ca: certificate, agent: false }, (response) => {
      response.resume();
      if (response.statusCode === 200) resolve();
      else reject(new Error(`/readyz answered ${response.statusCode}`));
    });
    call.on('error', reject);
    call.end();
  });
}

/** When each object was made, to the millisecond: timestamps in objects have whole seconds only. */
function trackBirths(store: ClusterStore) {
  const births = new Map<string, number>();
  store.subscribe(({ type, object }) => {
    if (type === 'ADDED') births.set(object.metadata.uid, performance.now());
    if (type === 'DELETED') births.delete(object.metadata.uid);
  });
  return (uid: string, forMs: number): boolean => performance.now() - (births.get(uid) ?? Number.NEGATIVE_INFINITY) < forMs;
}

async function closeAll(steps: readonly Close[]): Promise<void> {
  const errors: unknown[] = [];
  for (const step of steps.toReversed()) {
    try {
      await step();
    } catch (error) {
      errors.push(error);
    }
  }
  if (errors.length > 0) throw new AggregateError(errors, 'the embedded cluster did not close cleanly');
}

async function open(options: LocalClusterOptions, startNode: StartNode, closers: Close[]): Promise<LocalCluster> {
  const log = options.log ?? (() => undefined);
  const faults = loadFaults(options.faults, log);
  closers.push(faults.close);
  const credentials = await makeCredentials();
  const dataDir = options.dataDir ?? (await mkdtemp(join(tmpdir(), `windlass-local-${process.pid}-`)));
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  closers.push(() => rm(dataDir, { recursive: true, force: true, maxRetries: 5 }));
  const audit = openAuditLog(options.auditLog, log);
  closers.push(audit.close);

  const { historySize = 4096 } = options;
  const store = createStore({ now: () => Date.now() + faults.skewMs(), historySize });
  const hidden = trackBirths(store);
  closers.push(startControllers(store, credentials.certificate, log));
  seed(store);
  const { images = {}, sandbox = 'auto' } = options;
  const node = await startNode({ store, dataDir, images, sandbox, log });
  closers.push(() => node.close());

  const context = { store, node, hidden, log };
  const server = await startApiServer({ context, faults, audit, ...credentials, port: options.port });
  closers.push(server.close);
  await untilReady(server.port, credentials);
  const url = `https://127.0.0.1:${server.port}`;
  const kubeconfig = await writeKubeconfig(options.kubeconfig, url, credentials);
  closers.push(() => removeKubeconfig(kubeconfig, credentials));

  let closing: Promise<void> | undefined;
  const close = (): Promise<void> => {
    closing ??= closeAll(closers);
    return closing;
  };
  return { url, token: credentials.token, kubeconfig, mode: node.mode, close };
}

/** `startLocalCluster` with the node as a parameter, so that the API can be tested without processes. */
export async function runCluster(options: LocalClusterOptions, startNode: StartNode): Promise<LocalCluster> {
  const closers: Close[] = [];
  try {
    return await open(options, startNode, closers);
  } catch (error) {
    await closeAll(closers);
    throw error;
  }
}
