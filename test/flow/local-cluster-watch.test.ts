import { Agent, request } from 'undici';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { startApiServer } from '../../src/local-cluster/api/server.ts';
import { openAuditLog } from '../../src/local-cluster/audit.ts';
import { makeCredentials } from '../../src/local-cluster/credentials.ts';
import { loadFaults } from '../../src/local-cluster/faults.ts';
import { createStore } from '../../src/local-cluster/store.ts';
import { nodeDouble } from '../unit/local-cluster/node-double.ts';
import { type Api, eventually, merge, podBody, startApi } from './local-cluster-client.ts';

let api: Api;
const home = '/api/v1/namespaces/default';
const create = (name: string, labels: Record<string, string> = {}) =>
  api.call('POST', `${home}/configmaps`, { metadata: { name, labels } });
const named = (name: string, type?: string) => (event: { type: string; object: { metadata: { name: string } } }) =>
  event.object.metadata.name === name && (type === undefined || event.type === type);

beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.close());

describe('watches', () => {
  it('begin with what is there and go on with every change', async () => {
    await create('w1');
    const watch = await api.watch(`${home}/configmaps?watch=1`);
    await watch.until(named('w1', 'ADDED'));
    await create('w2');
    await watch.until(named('w2', 'ADDED'));
    await api.call('PATCH', `${home}/configmaps/w2`, { data: { a: 'b' } }, merge);
    expect((await watch.until(named('w2', 'MODIFIED'))).object).toMatchObject({ kind: 'ConfigMap', data: { a: 'b' } });
    const { body } = await api.call('GET', `${home}/configmaps`);
    await api.call('DELETE', `${home}/configmaps/w2`);
    const deleted = await watch.until(named('w2', 'DELETED'));
    expect(Number(deleted.object.metadata.resourceVersion)).toBeGreaterThan(Number(body.metadata.resourceVersion));
    watch.stop();
  });

  it('resume from a version without losing or repeating an event', async () => {
    const { body } = await api.call('GET', `${home}/configmaps`);
    await create('r1');
    await create('r2');
    await api.call('DELETE', `${home}/configmaps/r1`);
    const watch = await api.watch(`${home}/configmaps?watch=1&resourceVersion=${body.metadata.resourceVersion}`);
    await create('r3');
    await watch.until(named('r3'));
    expect(watch.events.map(({ type, object }) => `${type} ${object.metadata.name}`)).toEqual([
      'ADDED r1',
      'ADDED r2',
      'DELETED r1',
      'ADDED r3',
    ]);
    watch.stop();
  });

  it('show objects entering and leaving a selection', async () => {
    const watch = await api.watch(`${home}/configmaps?watch=1&labelSelector=shown`);
    await create('s1');
    await create('s2', { shown: 'yes' });
    await api.call('PATCH', `${home}/configmaps/s1`, { metadata: { labels: { shown: 'yes' } } }, merge);
    await api.call('PATCH', `${home}/configmaps/s2`, { metadata: { labels: { shown: null } } }, merge);
    await watch.until(named('s2', 'DELETED'));
    expect(watch.events.map(({ type, object }) => `${type} ${object.metadata.name}`)).toEqual([
      'ADDED s2',
      'ADDED s1',
      'DELETED s2',
    ]);
    watch.stop();
  });

  it('mark the end of the initial list, send a last bookmark and end in time', async () => {
    const watch = await api.watch(`${home}/configmaps?watch=1&allowWatchBookmarks=true&timeoutSeconds=1`);
    const first = await watch.until(({ type }) => type === 'BOOKMARK');
    expect(first.object).toMatchObject({ kind: 'ConfigMap', metadata: { annotations: { 'k8s.io/initial-events-end': 'true' } } });
    await watch.ended;
    const last = watch.events.at(-1);
    expect(last?.type).toBe('BOOKMARK');
    expect(Number(last?.object.metadata.resourceVersion)).toBeGreaterThan(0);
  });

  it('send metadata only, and Tables with their columns once', async () => {
    const partial = await api.watch(`${home}/configmaps?watch=1&fieldSelector=metadata.name%3Dw1`, {
      accept: 'application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1',
    });
    expect((await partial.until(named('w1'))).object).toMatchObject({ kind: 'PartialObjectMetadata' });
    partial.stop();
    const table = await api.watch(`${home}/configmaps?watch=1`, { accept: 'application/json;as=Table;g=meta.k8s.io;v=v1' });
    await eventually(() => (table.events.length >= 2 ? true : undefined));
    const [first, second] = table.events.map(({ object }) => object);
    expect(first?.columnDefinitions.length).toBeGreaterThan(0);
    expect(second?.columnDefinitions).toBeNull();
    expect(first?.rows).toHaveLength(1);
    table.stop();
  });

  it('see a Pod through its life, until it is gone', async () => {
    const watch = await api.watch(`${home}/pods?watch=1&fieldSelector=metadata.name%3Dlife`);
    await api.call('POST', `${home}/pods`, podBody('life'));
    await watch.until(({ object }) => object.status?.phase === 'Running');
    await api.call('DELETE', `${home}/pods/life`);
    await watch.until(({ object }) => object.metadata.deletionTimestamp !== undefined);
    await watch.until(named('life', 'DELETED'));
    watch.stop();
  });
});

describe('the history behind watches', () => {
  it('is bounded: an older version is answered with a 410 event and the end of the watch', async () => {
    const store = createStore({ historySize: 3 });
    for (let index = 0; index < 12; index += 1) {
      store.create('configmaps', { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: `m${index}`, namespace: 'default' } });
    }
    const credentials = await makeCredentials();
    const quiet = () => undefined;
    const server = await startApiServer({
      context: {
        store,
        node: await nodeDouble({ store, dataDir: '', images: {}, sandbox: 'none', log: quiet }),
        hidden: () => false,
        log: quiet,
      },
      faults: loadFaults(undefined, quiet),
      audit: openAuditLog(undefined, quiet),
      ...credentials,
      port: 0,
    });
    const agent = new Agent({ connect: { ca: credentials.certificate } });
    const from = async (version: number) => {
      const reply = await request(
        `https://127.0.0.1:${server.port}${home}/configmaps?watch=1&timeoutSeconds=1&resourceVersion=${version}`,
        { dispatcher: agent, headers: { authorization: `Bearer ${credentials.token}` } },
      );
      return (await reply.body.text())
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line));
    };
    expect(await from(2)).toMatchObject([{ type: 'ERROR', object: { kind: 'Status', code: 410, reason: 'Expired' } }]);
    expect((await from(10)).map(({ object }) => object.metadata.name)).toEqual(['m10', 'm11']);
    await agent.destroy();
    await server.close();
  });
});
