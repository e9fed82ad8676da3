import { afterAll, describe, expect, it } from 'vitest';
import { jsonPatch, merge, strategic } from '../support/kube-http.ts';
import { done, openTarget, podOf } from './target.ts';

const target = await openTarget();
const path = (name: string) => `${target.home}/configmaps/${name}`;
const make = (name: string, data: object) => target.create('configmaps', { metadata: { name, labels: { a: '1' } }, data });
afterAll(() => target.close());

describe('a merge patch', () => {
  it('sets, replaces and removes keys, and replaces lists whole', async () => {
    await make('m', { x: '1', y: '2' });
    const body = { data: { x: null, z: '3' }, metadata: { labels: { b: '2' } } };
    const changed = done(await target.call('PATCH', path('m'), body, merge));
    expect([changed.data, changed.metadata.labels]).toEqual([
      { y: '2', z: '3' },
      { a: '1', b: '2' },
    ]);
  });

  it('answers 404 for what is not there and creates nothing', async () => {
    expect((await target.call('PATCH', path('nope'), { data: {} }, merge)).code).toBe(404);
  });

  it('cannot give another name or uid', async () => {
    await make('named', {});
    expect((await target.call('PATCH', path('named'), { metadata: { name: 'other' } }, merge)).code).toBe(400);
    const uid = await target.call('PATCH', path('named'), { metadata: { uid: 'other' } }, merge);
    expect([uid.code, uid.body.reason]).toEqual([422, 'Invalid']);
  });
});

describe('a JSON patch', () => {
  it('runs its operations in order, all or none', async () => {
    await make('j', { x: '1' });
    const operations = [
      { op: 'test', path: '/data/x', value: '1' },
      { op: 'replace', path: '/data/x', value: '2' },
      { op: 'add', path: '/metadata/labels/example.com~1l', value: 'v' },
      { op: 'remove', path: '/metadata/labels/a' },
    ];
    const changed = done(await target.call('PATCH', path('j'), operations, jsonPatch));
    expect([changed.data, changed.metadata.labels]).toEqual([{ x: '2' }, { 'example.com/l': 'v' }]);
    const failed = await target.call(
      'PATCH',
      path('j'),
      [
        { op: 'test', path: '/data/x', value: 'no' },
        { op: 'remove', path: '/data/x' },
      ],
      jsonPatch,
    );
    expect([failed.code, failed.body.reason]).toEqual([422, 'Invalid']);
    const absent = await target.call('PATCH', path('j'), [{ op: 'remove', path: '/data/nope' }], jsonPatch);
    expect(absent.code).toBe(422);
    expect((await target.call('GET', path('j'))).body.data).toEqual({ x: '2' });
  });
});

describe('a strategic merge patch', () => {
  it('merges lists by their keys, deletes by directive, and replaces where told', async () => {
    const env = [
      { name: 'A', value: '1' },
      { name: 'B', value: '2' },
    ];
    const tolerations = [{ key: 'a', operator: 'Exists' }];
    const body = podOf(target, 's', 'true', { nodeSelector: { no: 'node' }, tolerations }, { env });
    await target.create('pods', body);
    const pod = `${target.home}/pods/s`;
    const image = { spec: { containers: [{ name: 'main', image: 'node:local' }] } };
    const changed = done(await target.call('PATCH', pod, image, strategic));
    expect(changed.spec.containers).toHaveLength(1);
    expect(changed.spec.containers[0]).toMatchObject({ image: 'node:local', env });
    const labels = { metadata: { labels: { $patch: 'replace', only: 'this' } } };
    expect(done(await target.call('PATCH', pod, labels, strategic)).metadata.labels).toEqual({ only: 'this' });
    const owner = { apiVersion: 'v1', kind: 'ConfigMap', name: 'o' };
    const uids = ['00000000-0000-4000-8000-000000000001', '00000000-0000-4000-8000-000000000002'];
    // Keys of the list are uids; the owner of a name that is not served is left alone by the collector for a while.
    const finalizers = {
      metadata: { finalizers: ['example.com/hold'], ownerReferences: uids.map((uid) => ({ ...owner, uid })) },
    };
    const owned = done(await target.call('PATCH', `${pod}?dryRun=All`, finalizers, strategic));
    expect(owned.metadata.ownerReferences).toHaveLength(2);
  });
});

describe('a patch of the wrong kind', () => {
  it('is refused with 415', async () => {
    await make('w', {});
    const reply = await target.call('PATCH', path('w'), { data: {} }, { 'content-type': 'application/json' });
    expect([reply.code, reply.body.reason]).toEqual([415, 'UnsupportedMediaType']);
  });
});
