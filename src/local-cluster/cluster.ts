import { mkdir, mkdtemp, rm } from 'node:fs/promises';
import { request } from 'node:https';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { openAuditLog } from './audit.ts';
import { startControllers } from './controllers.ts';
import { type Credentials, makeCredentials, removeKubeconfig, writeKubeconfig } from './credentials.ts';
import type { Faults } from './faults.ts';
import { seed } from './seed.ts';
import { type ClusterStore, createStore } from './store.ts';
import type { LocalCluster, LocalClusterOptions, NodeRuntime, Store } from './types.ts';

type Close = () => Promise<void> | void;

export interface NodeOptions {
  readonly store: Store;
  /** Until then the node makes its processes ready, but reads and writes nothing. */
  readonly seeded?: Promise<unknown>;
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

async function prepare(store: ClusterStore, log: (message: string) => void, closers: Close[]): Promise<Credentials> {
  const [credentials] = await Promise.all([makeCredentials(), import('./api/server.ts')]);
  closers.push(startControllers(store, credentials.certificate, log));
  seed(store);
  return credentials;
}

/** Waits for both even when one fails: a node that has started must be closed again. */
async function bothOf(
  starting: Promise<NodeRuntime>,
  prepared: Promise<Credentials>,
  closers: Close[],
): Promise<[NodeRuntime, Credentials]> {
  const [node, credentials] = await Promise.allSettled([starting, prepared]);
  if (node.status === 'fulfilled') closers.push(() => node.value.close());
  if (node.status === 'rejected') throw node.reason;
  if (credentials.status === 'rejected') throw credentials.reason;
  return [node.value, credentials.value];
}

/** Only a faults file needs the library that checks it, which takes longer to load than the rest. */
async function openFaults({ faults }: LocalClusterOptions, log: (message: string) => void): Promise<Faults> {
  if (faults !== undefined) return (await import('./faults.ts')).loadFaults(faults, log);
  return { match: () => [], skewMs: () => 0, onChange: () => () => false, close: () => undefined };
}

async function open(options: LocalClusterOptions, startNode: StartNode, closers: Close[]): Promise<LocalCluster> {
  const log = options.log ?? (() => undefined);
  const faults = await openFaults(options, log);
  closers.push(faults.close);
  const dataDir = options.dataDir ?? (await mkdtemp(join(tmpdir(), `windlass-local-${process.pid}-`)));
  await mkdir(dataDir, { recursive: true, mode: 0o700 });
  closers.push(() => rm(dataDir, { recursive: true, force: true, maxRetries: 5 }));
  const audit = openAuditLog(options.auditLog, log);
  closers.push(audit.close);

  const { historySize = 4096, images = {}, sandbox = 'auto' } = options;
  const store = createStore({ now: () => Date.now() + faults.skewMs(), historySize });
  const hidden = trackBirths(store);
  // The node's processes start while this one loads its libraries and makes the certificate: half of the time to /readyz.
  const prepared = prepare(store, log, closers);
  const starting = startNode({ store, seeded: prepared, dataDir, images, sandbox, log });
  const [node, credentials] = await bothOf(starting, prepared, closers);

  const context = { store, node, hidden, log };
  const { startApiServer } = await import('./api/server.ts');
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
