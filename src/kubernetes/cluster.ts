import type { CoreV1Event, V1ObjectMeta, V1Status } from '@kubernetes/client-node';
import type { ClusterConfig } from '../config/schema.ts';
import { canonicalJson, sha256 } from '../names.ts';
import { ApiError } from './api-error.ts';
import { createConnection } from './connection.ts';
import { reviveDates, reviveMeta } from './dates.ts';
import { eventTime } from './event-time.ts';
import { createExec } from './exec.ts';
import { createForward } from './forward.ts';
import { createLogs } from './logs.ts';
import { assertLabelName, assertObjectName, assertUid } from './names.ts';
import { createPodCache } from './pod-cache.ts';
import type { AccessQuestion, CallOptions, Cluster, Kind, KindMap, RemoveOptions } from './port.ts';
import { type CallSeen, createRest, type Rest, type RestCall } from './rest.ts';

export interface ClusterLog {
  debug(fields: object, message: string): void;
  info(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}

export interface ClusterOptions {
  /** Value of the label that this installation's objects carry: the only Pods that are watched. */
  readonly installation: string;
  /** Folder that relative kubeconfig paths start from: that of the configuration file. */
  readonly dir: string;
  readonly log: ClusterLog;
  /** Metrics: one finished call; a watch that had to be taken up again. */
  readonly onCall?: (cluster: string, call: CallSeen) => void;
  readonly onWatchRestart?: (cluster: string) => void;
}

const metadataList = 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1';
const pageSize = 500;
const maxEvents = 50;
/** A delete that lost a race with a status write is asked again; more often is somebody else's doing. */
const deleteTries = 4;

/** The connection without credentials or limits: equal hashes mean the same place. */
function hashOf(config: ClusterConfig): string {
  const { authMode, namespace } = config;
  const place = config.authMode === 'kubeconfig' ? { kubeconfigPath: config.kubeconfigPath, context: config.context } : {};
  return sha256(canonicalJson({ authMode, namespace, ...place }));
}

export function createCluster(name: string, config: ClusterConfig, options: ClusterOptions): Cluster {
  assertLabelName('namespace', config.namespace);
  const { namespace } = config;
  const { log } = options;
  const connection = createConnection(name, config, options.dir);
  const { onCall, onWatchRestart } = options;
  const rest = createRest(connection, config.requestTimeoutSeconds * 1000, onCall && ((call) => onCall(name, call)));
  const pods = createPodCache({
    rest,
    namespace,
    installation: options.installation,
    log,
    ...(onWatchRestart ? { onRestart: () => onWatchRestart(name) } : {}),
  });
  return {
    name,
    namespace,
    configHash: hashOf(config),
    pods,
    ...createObjects(rest, namespace),
    ...createQuestions(rest, namespace),
    ...createLogs(rest, namespace),
    exec: createExec(connection, namespace),
    forward: createForward(connection, namespace, log),
    clockSkewMs: () => rest.clockSkewMs(),
    async close() {
      await pods.close();
      await connection.close();
    },
  };
}

/** The path of an object or a collection, from checked names only. */
function pathOf(namespace: string, kind: Kind, name?: string): string {
  if (name !== undefined) assertObjectName(name);
  return `/api/v1/namespaces/${namespace}/${kind}${name === undefined ? '' : `/${name}`}`;
}

function asked(kind: Kind, name: string, options: CallOptions = {}): Pick<RestCall, 'resource' | 'name' | 'signal' | 'instance'> {
  return { resource: kind, name, signal: options.signal, instance: options.instance };
}

function createObjects(
  rest: Rest,
  namespace: string,
): Pick<Cluster, 'create' | 'read' | 'patch' | 'remove' | 'list' | 'listMetadata'> {
  const read = async <K extends Kind>(kind: K, name: string, options?: CallOptions): Promise<KindMap[K] | undefined> => {
    const path = pathOf(namespace, kind, name);
    try {
      const { body } = await rest.call<KindMap[K]>({ verb: 'get', method: 'GET', path, ...asked(kind, name, options) });
      return reviveDates(body);
    } catch (error) {
      if (error instanceof ApiError && error.status === 404) return undefined;
      throw error;
    }
  };
  return {
    read,
    async create(kind, object, options) {
      const name = object.metadata?.name ?? '';
      assertObjectName(name);
      const { body } = await rest.call<typeof object>({
        verb: 'create',
        method: 'POST',
        path: pathOf(namespace, kind),
        query: { dryRun: options?.dryRun ? 'All' : undefined, fieldManager: 'windlass' },
        body: object,
        ...asked(kind, name, options),
      });
      return reviveDates(body);
    },
    async patch(kind, name, patch, options) {
      const { body } = await rest.call<KindMap[typeof kind]>({
        verb: 'patch',
        method: 'PATCH',
        path: pathOf(namespace, kind, name),
        query: { fieldManager: 'windlass' },
        contentType: 'application/merge-patch+json',
        body: patch,
        ...asked(kind, name, options),
      });
      return reviveDates(body);
    },
    async remove(kind, name, options) {
      for (let tries = 1; ; tries += 1) {
        try {
          return await removeOnce(rest, namespace, kind, name, options);
        } catch (error) {
          if (!(error instanceof ApiError) || error.status !== 409) throw error;
          const there = await read(kind, name, options);
          if (there?.metadata?.uid !== options.uid) return 'gone';
          // With a resourceVersion the conflict is the answer: somebody has taken the object over.
          if (options.resourceVersion !== undefined || tries === deleteTries) throw error;
        }
      }
    },
    async *list<K extends Kind>(kind: K, labelSelector: string, options?: CallOptions) {
      const pages = pagesOf<KindMap[K]>(rest, { path: pathOf(namespace, kind), kind, labelSelector, ...options });
      for await (const page of pages) yield page.items.map((item) => reviveDates(item));
    },
    async *listMetadata(kind, labelSelector, options) {
      const asMetadata = { path: pathOf(namespace, kind), kind, labelSelector, accept: metadataList, ...options };
      for await (const page of pagesOf<{ readonly metadata: V1ObjectMeta }>(rest, asMetadata)) {
        yield { items: page.items.map((item) => reviveMeta(item.metadata)), serverTime: page.serverTime };
      }
    },
  };
}

async function removeOnce(
  rest: Rest,
  namespace: string,
  kind: Kind,
  name: string,
  options: RemoveOptions,
): Promise<'gone' | 'deleting'> {
  assertUid(options.uid);
  const preconditions = {
    uid: options.uid,
    ...(options.resourceVersion === undefined ? {} : { resourceVersion: options.resourceVersion }),
  };
  const grace = options.graceSeconds === undefined ? {} : { gracePeriodSeconds: options.graceSeconds };
  try {
    const { body } = await rest.call<V1Status | KindMap[Kind]>({
      verb: 'delete',
      method: 'DELETE',
      path: pathOf(namespace, kind, name),
      body: { apiVersion: 'v1', kind: 'DeleteOptions', preconditions, propagationPolicy: 'Background', ...grace },
      ...asked(kind, name, options),
    });
    return body.kind === 'Status' ? 'gone' : 'deleting';
  } catch (error) {
    if (error instanceof ApiError && error.status === 404) return 'gone';
    throw error;
  }
}

interface Listing extends CallOptions {
  readonly path: string;
  readonly kind: Kind;
  readonly labelSelector: string;
  readonly accept?: string;
}

interface ListPage<T> {
  readonly items: readonly T[];
  readonly serverTime: number;
}

async function* pagesOf<T>(rest: Rest, { path, kind, labelSelector, accept, ...options }: Listing): AsyncGenerator<ListPage<T>> {
  let token: string | undefined;
  let restarts = 0;
  for (;;) {
    let page: { readonly body: List<T>; readonly serverTime: number };
    try {
      page = await rest.call<List<T>>({
        verb: 'list',
        resource: kind,
        method: 'GET',
        path,
        query: { labelSelector: labelSelector || undefined, limit: pageSize, continue: token },
        ...(accept === undefined ? {} : { accept }),
        signal: options.signal,
        instance: options.instance,
      });
    } catch (error) {
      if (!(error instanceof ApiError) || error.status !== 410 || restarts === 3) throw error;
      restarts += 1;
      token = undefined;
      continue;
    }
    yield { items: page.body.items ?? [], serverTime: page.serverTime };
    token = page.body.metadata?.continue || undefined;
    if (token === undefined) return;
  }
}

interface List<T> {
  readonly items?: readonly T[];
  readonly metadata?: { readonly continue?: string };
}

function createQuestions(rest: Rest, namespace: string): Pick<Cluster, 'events' | 'can' | 'version'> {
  return {
    async events(uid, options) {
      assertUid(uid);
      const { body } = await rest.call<{ items?: CoreV1Event[] }>({
        verb: 'list',
        resource: 'events',
        method: 'GET',
        path: `/api/v1/namespaces/${namespace}/events`,
        query: { fieldSelector: `involvedObject.uid=${uid}`, limit: pageSize },
        signal: options?.signal,
        instance: options?.instance,
      });
      const events = (body.items ?? []).map((event) => reviveDates(event));
      return events.sort((a, b) => eventTime(a) - eventTime(b)).slice(-maxEvents);
    },
    async can(question, options) {
      const { body } = await rest.call<{ status?: { allowed?: boolean; reason?: string } }>(review(namespace, question, options));
      return { allowed: body.status?.allowed === true, reason: body.status?.reason ?? '' };
    },
    async version(options) {
      const answer = await rest.call<{ gitVersion?: string }>({
        verb: 'get',
        resource: 'version',
        method: 'GET',
        path: '/version',
        signal: options?.signal,
      });
      return { gitVersion: answer.body.gitVersion ?? '', serverTime: answer.serverTime };
    },
  };
}

function review(namespace: string, question: AccessQuestion, options: CallOptions = {}): RestCall {
  const resourceAttributes = { namespace, group: '', ...question };
  return {
    verb: 'create',
    resource: 'selfsubjectaccessreviews',
    method: 'POST',
    path: '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews',
    body: { apiVersion: 'authorization.k8s.io/v1', kind: 'SelfSubjectAccessReview', spec: { resourceAttributes } },
    signal: options.signal,
    instance: options.instance,
  };
}
