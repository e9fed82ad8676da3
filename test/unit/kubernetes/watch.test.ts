import type { ServerResponse } from 'node:http';
import type { V1Pod } from '@kubernetes/client-node';
import { afterEach, describe, expect, it } from 'vitest';
import { createConnection } from '../../../src/kubernetes/connection.ts';
import { createPodCache } from '../../../src/kubernetes/pod-cache.ts';
import type { PodCache, PodChange } from '../../../src/kubernetes/port.ts';
import { createRest } from '../../../src/kubernetes/rest.ts';
import { answer, failure, quietLog, type Received, type StubServer, startStub, until } from './stub-server.ts';

const podOf = (name: string, version: number, uid = `uid-${name}`): V1Pod => ({
  metadata: { name, uid, resourceVersion: String(version), managedFields: [] },
});

/** One API server whose Pods and watches the test holds in its hands. */
class Server {
  pods: V1Pod[] = [];
  version = 1;
  lists = 0;
  readonly watches: { readonly from: string; readonly response: ServerResponse }[] = [];
  readonly eventWatches: ServerResponse[] = [];
  live = 0;
  mostLive = 0;
  onWatch: ((response: ServerResponse) => void) | undefined;

  readonly http = (request: Received, response: ServerResponse): void => {
    const watching = request.url.searchParams.get('watch') === 'true';
    if (request.url.pathname.endsWith('/events')) {
      if (watching) {
        response.writeHead(200).flushHeaders();
        this.eventWatches.push(response);
      } else answer(response, 200, { items: [], metadata: { resourceVersion: '1' } });
      return;
    }
    if (!watching) {
      this.lists += 1;
      answer(response, 200, { items: this.pods, metadata: { resourceVersion: String(this.version) } });
      return;
    }
    this.live += 1;
    this.mostLive = Math.max(this.mostLive, this.live);
    response.once('close', () => {
      this.live -= 1;
    });
    this.watches.push({ from: request.url.searchParams.get('resourceVersion') ?? '', response });
    if (this.onWatch) this.onWatch(response);
    else response.writeHead(200).flushHeaders();
  };

  send(type: string, object: object): void {
    this.watches.at(-1)?.response.write(`${JSON.stringify({ type, object })}\n`);
  }
}

let stub: StubServer;
let cache: PodCache & { close(): Promise<void> };
let closeConnection: () => Promise<void>;

async function start(server: Server, idleMs?: number): Promise<PodChange[]> {
  stub = await startStub({ http: server.http });
  const connection = createConnection('main', stub.config(), stub.dir);
  closeConnection = () => connection.close();
  const rest = createRest(connection, 5000);
  cache = createPodCache({ rest, namespace: 'sandboxes', installation: 'local', log: quietLog, ...(idleMs ? { idleMs } : {}) });
  const changes: PodChange[] = [];
  cache.onChange((change) => changes.push(change));
  await cache.ready();
  return changes;
}
afterEach(async () => {
  await cache.close();
  await closeConnection();
  await stub.close();
});

describe('the shared watch', () => {
  it('lists by label, then follows, and remembers what it saw', async () => {
    const server = new Server();
    server.pods = [podOf('windlass-a', 1)];
    const changes = await start(server);
    expect(cache.get('windlass-a')?.metadata?.uid).toBe('uid-windlass-a');
    expect(cache.get('windlass-a')?.metadata?.managedFields).toBeUndefined();
    await until('the watch', () => server.watches.length === 1);
    expect(server.watches[0]?.from).toBe('1');
    const url = stub.received.find(({ url: { pathname } }) => pathname.endsWith('/pods'))?.url;
    expect(url?.searchParams.get('labelSelector')).toBe('windlass.dev/installation=local');
    server.send('ADDED', podOf('windlass-b', 2));
    server.send('MODIFIED', { ...podOf('windlass-a', 3), status: { phase: 'Running' } });
    server.send('DELETED', podOf('windlass-b', 4));
    await until('the changes', () => changes.length === 4);
    expect(changes.map(({ name, pod }) => [name, pod?.metadata?.resourceVersion])).toEqual([
      ['windlass-a', '1'],
      ['windlass-b', '2'],
      ['windlass-a', '3'],
      ['windlass-b', undefined],
    ]);
    expect(cache.get('windlass-b')).toBeUndefined();
  });

  it('goes on at the last version after a close, without listing again', async () => {
    const server = new Server();
    await start(server);
    await until('the watch', () => server.watches.length === 1);
    server.send('BOOKMARK', { metadata: { resourceVersion: '41' } });
    server.send('ADDED', podOf('windlass-a', 40));
    await until('the Pod', () => cache.get('windlass-a') !== undefined);
    server.send('BOOKMARK', { metadata: { resourceVersion: '42' } });
    server.watches[0]?.response.end();
    await until('the next watch', () => server.watches.length === 2);
    expect(server.watches[1]?.from).toBe('42');
    expect(server.lists).toBe(1);
  });

  it('takes a silent watch up again', async () => {
    const server = new Server();
    await start(server, 80);
    await until('three watches', () => server.watches.length >= 3);
    expect(server.lists).toBe(1);
    expect(server.mostLive).toBeLessThanOrEqual(2);
  });

  it('C66: lists again after 410, in the stream and as status, and misses no delete', async () => {
    const server = new Server();
    server.pods = [podOf('windlass-a', 1), podOf('windlass-b', 1)];
    const changes = await start(server);
    await until('the watch', () => server.watches.length === 1);
    server.pods = [podOf('windlass-b', 1)];
    server.version = 9;
    server.send('ERROR', failure(410, 'Expired', 'too old resource version'));
    await until('the delete', () => changes.some(({ name, pod }) => name === 'windlass-a' && pod === undefined));
    await until('the next watch', () => server.watches.length === 2);
    expect(server.watches[1]?.from).toBe('9');
    server.pods = [];
    server.onWatch = (response) => answer(response, 410, failure(410, 'Expired', 'too old'));
    server.watches[1]?.response.end();
    await until('the second delete', () => cache.get('windlass-b') === undefined);
  });

  it('C65: backs off when every watch fails, with one at a time', async () => {
    const server = new Server();
    server.onWatch = (response) => response.socket?.destroy();
    await start(server);
    await until('the first', () => server.watches.length > 0);
    const began = performance.now();
    // Two sockets per try, since a broken read is repeated once. Two waits: 200 to 400 ms, then 400 to 800 ms.
    await until('the third try', () => server.watches.length >= 5);
    expect(performance.now() - began).toBeGreaterThan(590);
    expect(server.mostLive).toBe(1);
    expect(server.lists).toBeLessThanOrEqual(1);
  });

  it('survives a listener that throws and a line that is no JSON', async () => {
    const server = new Server();
    await start(server);
    cache.onChange(() => {
      throw new Error('mine');
    });
    await until('the watch', () => server.watches.length === 1);
    server.send('ADDED', podOf('windlass-a', 2));
    await until('the Pod', () => cache.get('windlass-a') !== undefined);
    server.watches[0]?.response.write('{"type": oops}\n');
    await until('the next watch', () => server.watches.length === 2);
    server.send('ADDED', podOf('windlass-b', 3));
    await until('the other Pod', () => cache.get('windlass-b') !== undefined);
  });

  it('keeps the last 20 events of our objects and wakes on them', async () => {
    const server = new Server();
    server.pods = [podOf('windlass-a', 1, 'u1')];
    const changes = await start(server);
    await until('the event watch', () => server.eventWatches.length === 1);
    const send = (name: string, uid: string, index: number): void => {
      const object = {
        metadata: { uid: `e${index}` },
        involvedObject: { name, uid },
        reason: `R${index}`,
        lastTimestamp: new Date(Date.UTC(2026, 0, 1, 0, 0, index)).toISOString(),
      };
      server.eventWatches[0]?.write(`${JSON.stringify({ type: 'ADDED', object })}\n`);
    };
    send('other', 'u2', 0);
    for (let index = 1; index <= 25; index += 1) send('windlass-a', 'u1', index);
    await until('the events', () => cache.eventsOf('u1').at(-1)?.reason === 'R25');
    expect(cache.eventsOf('u1').map(({ reason }) => reason)).toEqual(Array.from({ length: 20 }, (_, index) => `R${index + 6}`));
    expect(cache.eventsOf('u2')).toEqual([]);
    expect(changes.length).toBe(26);
  });
});

it('ready gives up when it is told to', async () => {
  stub = await startStub({ http: () => {} });
  const connection = createConnection('main', stub.config(), stub.dir);
  closeConnection = () => connection.close();
  cache = createPodCache({ rest: createRest(connection, 5000), namespace: 'sandboxes', installation: 'local', log: quietLog });
  await expect(cache.ready(AbortSignal.timeout(50))).rejects.toMatchObject({ code: 'interrupted' });
});
