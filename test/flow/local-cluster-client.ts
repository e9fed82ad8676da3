import { mkdtemp, readFile, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Agent, request } from 'undici';
import { WebSocket } from 'ws';
import { parse } from 'yaml';
import { runCluster } from '../../src/local-cluster/cluster.ts';
import type { KubeObject, LocalCluster, LocalClusterOptions } from '../../src/local-cluster/types.ts';
import { nodeDouble } from '../unit/local-cluster/node-double.ts';

export interface Reply {
  readonly code: number;
  // biome-ignore lint/suspicious/noExplicitAny: answers of every shape are compared whole
  readonly body: any;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

export interface Watch {
  /** Resolves with the first event that passes, looking at the ones already here first. */
  until(passes: (event: { type: string; object: KubeObject }) => boolean): Promise<{ type: string; object: KubeObject }>;
  readonly events: { type: string; object: KubeObject }[];
  readonly ended: Promise<void>;
  stop(): void;
}

export const merge = { 'content-type': 'application/merge-patch+json' };
export const strategic = { 'content-type': 'application/strategic-merge-patch+json' };
export const jsonPatch = { 'content-type': 'application/json-patch+json' };

/** Polls until `value` gives something; fails after 10 s. */
export async function eventually<T>(value: () => Promise<T | undefined> | T | undefined): Promise<T> {
  const deadline = performance.now() + 10_000;
  for (;;) {
    const found = await value();
    if (found !== undefined) return found;
    if (performance.now() > deadline) throw new Error(`nothing came within 10 s: ${value}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

async function readEvents(
  stream: AsyncIterable<Buffer>,
  onEvent: (event: { type: string; object: KubeObject }) => void,
): Promise<void> {
  let rest = '';
  for await (const chunk of stream) {
    const lines = (rest + chunk.toString('utf8')).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) onEvent(JSON.parse(line));
  }
}

/** An embedded cluster whose Pods are played by a double, and a client that speaks plain HTTP to it. */
export async function startApi(options: Partial<LocalClusterOptions> = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'windlass-api-'));
  const kubeconfig = join(folder, 'kubeconfig');
  const cluster: LocalCluster = await runCluster({ port: 0, kubeconfig, ...options }, nodeDouble);
  const config = parse(await readFile(kubeconfig, 'utf8'));
  const ca = Buffer.from(config.clusters[0].cluster['certificate-authority-data'], 'base64').toString();
  const agent = new Agent({ connect: { ca } });
  const authorization = `Bearer ${config.users[0].user.token}`;

  const open = (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) =>
    request(`${cluster.url}${path}`, {
      method: method as 'GET',
      dispatcher: agent,
      headers: { authorization, ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
      body: body === undefined ? null : typeof body === 'string' ? body : JSON.stringify(body),
    });

  return {
    cluster,
    folder,
    kubeconfig,
    agent,
    async call(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Reply> {
      const reply = await open(method, path, body, headers);
      const text = await reply.body.text();
      const json = String(reply.headers['content-type']).includes('json');
      return { code: reply.statusCode, body: json ? JSON.parse(text) : text, headers: reply.headers };
    },
    async watch(path: string, headers?: Record<string, string>): Promise<Watch> {
      const reply = await open('GET', path, undefined, headers);
      const events: Watch['events'] = [];
      const waiters = new Set<() => void>();
      const wake = () => {
        for (const waiter of waiters) waiter();
      };
      let over = false;
      const ended = readEvents(reply.body, (event) => {
        events.push(event);
        wake();
      }).finally(() => {
        over = true;
        wake();
      });
      ended.catch(() => undefined);
      return {
        events,
        ended,
        stop: () => void reply.body.destroy(),
        until: (passes) =>
          new Promise((resolve, reject) => {
            const look = () => {
              const found = events.find(passes);
              if (found) resolve(found);
              else if (over) reject(new Error(`the watch ended without it: ${JSON.stringify(events).slice(0, 500)}`));
              if (found || over) waiters.delete(look);
            };
            waiters.add(look);
            look();
          }),
      };
    },
    socket: (path: string, protocols: string[]) =>
      new WebSocket(`${cluster.url.replace('https', 'wss')}${path}`, protocols, { ca, headers: { authorization } }),
    async close(): Promise<void> {
      await agent.destroy();
      await cluster.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

export type Api = Awaited<ReturnType<typeof startApi>>;

export const podBody = (name: string, spec: object = {}) => ({
  apiVersion: 'v1',
  kind: 'Pod',
  metadata: { name },
  spec: { containers: [{ name: 'c', image: 'busybox:local', command: ['sleep', '1000'] }], ...spec },
});

export const claimBody = (name: string, storage = '1Gi') => ({
  metadata: { name },
  spec: { accessModes: ['ReadWriteOnce'], resources: { requests: { storage } } },
});
