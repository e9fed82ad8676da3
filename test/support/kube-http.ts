import { readFile } from 'node:fs/promises';
import { Agent, request } from 'undici';
import { WebSocket } from 'ws';
import { parse } from 'yaml';
import type { KubeObject } from '../../src/local-cluster/types.ts';

export interface Reply {
  readonly code: number;
  // biome-ignore lint/suspicious/noExplicitAny: answers of every shape are compared whole
  readonly body: any;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

interface WatchEvent {
  type: string;
  object: KubeObject;
}

export interface Watch {
  /** Resolves with the first event that passes, looking at the ones already here first. */
  until(passes: (event: WatchEvent) => boolean): Promise<WatchEvent>;
  readonly events: WatchEvent[];
  readonly ended: Promise<void>;
  stop(): void;
}

export const merge = { 'content-type': 'application/merge-patch+json' };
export const strategic = { 'content-type': 'application/strategic-merge-patch+json' };
export const jsonPatch = { 'content-type': 'application/json-patch+json' };

/** Polls until `value` gives something; fails after `seconds`. */
export async function eventually<T>(value: () => Promise<T | undefined> | T | undefined, seconds = 10): Promise<T> {
  const deadline = performance.now() + seconds * 1000;
  for (;;) {
    const found = await value();
    if (found !== undefined) return found;
    if (performance.now() > deadline) throw new Error(`nothing came within ${seconds} s: ${value}`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

async function readEvents(stream: AsyncIterable<Buffer>, onEvent: (event: WatchEvent) => void): Promise<void> {
  let rest = '';
  for await (const chunk of stream) {
    const lines = (rest + chunk.toString('utf8')).split('\n');
    rest = lines.pop() ?? '';
    for (const line of lines) onEvent(JSON.parse(line));
  }
}

function watchOf(stream: AsyncIterable<Buffer> & { destroy(): unknown }): Watch {
  const events: WatchEvent[] = [];
  const waiters = new Set<() => void>();
  const wake = () => {
    for (const waiter of waiters) waiter();
  };
  let over = false;
  const ended = readEvents(stream, (event) => {
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
    stop: () => void stream.destroy(),
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
}

/** A client that speaks plain HTTP to the Kubernetes of this kubeconfig, with its token or client certificate. */
export async function connectHttp(kubeconfig: string) {
  const config = parse(await readFile(kubeconfig, 'utf8'));
  const { cluster } = config.clusters[0];
  const { user } = config.users[0];
  const text = (data: string | undefined) => (data === undefined ? undefined : Buffer.from(data, 'base64').toString());
  const tls = {
    ca: text(cluster['certificate-authority-data']),
    cert: text(user['client-certificate-data']),
    key: text(user['client-key-data']),
  };
  const url: string = cluster.server;
  const agent = new Agent({ connect: tls });
  const authorization: Record<string, string> = user.token === undefined ? {} : { authorization: `Bearer ${user.token}` };

  const open = (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) =>
    request(`${url}${path}`, {
      method: method as 'GET',
      dispatcher: agent,
      headers: { ...authorization, ...(body === undefined ? {} : { 'content-type': 'application/json' }), ...headers },
      body: body === undefined ? null : typeof body === 'string' ? body : JSON.stringify(body),
    });

  return {
    agent,
    async call(method: string, path: string, body?: unknown, headers?: Record<string, string>): Promise<Reply> {
      const reply = await open(method, path, body, headers);
      const answer = await reply.body.text();
      const json = String(reply.headers['content-type']).includes('json');
      return { code: reply.statusCode, body: json ? JSON.parse(answer) : answer, headers: reply.headers };
    },
    async watch(path: string, headers?: Record<string, string>): Promise<Watch> {
      return watchOf((await open('GET', path, undefined, headers)).body);
    },
    socket: (path: string, protocols: string[]) =>
      new WebSocket(`${url.replace('https', 'wss')}${path}`, protocols, { ...tls, headers: authorization }),
  };
}

export type KubeHttp = Awaited<ReturnType<typeof connectHttp>>;
