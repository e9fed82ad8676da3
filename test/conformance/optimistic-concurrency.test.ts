import { afterAll, describe, expect, it } from 'vitest';
import { merge } from '../support/kube-http.ts';
import { openTarget } from './target.ts';

const target = await openTarget();
const path = (name: string) => `${target.home}/configmaps/${name}`;
const modified = (name: string) =>
  `Operation cannot be fulfilled on configmaps "${name}": the object has been modified; please apply your changes to the latest version and try again`;
afterAll(() => target.close());

describe('writes of a version that is not the latest', () => {
  it('are refused, as replacement and as patch', async () => {
    const old = await target.create('configmaps', { metadata: { name: 'a' } });
    await target.call('PATCH', path('a'), { data: { x: '1' } }, merge);
    const put = await target.call('PUT', path('a'), { ...old, data: { x: '2' } });
    expect(put.body).toMatchObject({ code: 409, reason: 'Conflict', message: modified('a') });
    expect(put.body.details).toEqual({ name: 'a', kind: 'configmaps' });
    const { resourceVersion } = old.metadata;
    const patch = await target.call('PATCH', path('a'), { metadata: { resourceVersion, labels: { l: 'v' } } }, merge);
    expect(patch.body).toMatchObject({ code: 409, message: modified('a') });
    expect((await target.call('GET', path('a'))).body.data).toEqual({ x: '1' });
  });

  it('let exactly one of many writers of the same version win', async () => {
    const old = await target.create('configmaps', { metadata: { name: 'race' } });
    const writers = Array.from({ length: 8 }, (_, index) => ({ ...old, data: { by: String(index) } }));
    const codes = await Promise.all(writers.map(async (body) => (await target.call('PUT', path('race'), body)).code));
    expect(codes.toSorted()).toEqual([200, ...Array(7).fill(409)]);
  });

  it('go through without a version, and change no version when they change nothing', async () => {
    await target.create('configmaps', { metadata: { name: 'b' }, data: { x: '1' } });
    const first = await target.call('PUT', path('b'), { metadata: { name: 'b' }, data: { x: '2' } });
    const same = await target.call('PUT', path('b'), { metadata: { name: 'b' }, data: { x: '2' } });
    expect([first.code, same.code]).toEqual([200, 200]);
    expect(same.body.metadata.resourceVersion).toBe(first.body.metadata.resourceVersion);
  });

  it('are refused for another uid', async () => {
    await target.create('configmaps', { metadata: { name: 'c' } });
    const uid = '00000000-0000-4000-8000-000000000000';
    const put = await target.call('PUT', path('c'), { metadata: { name: 'c', uid } });
    expect([put.code, put.body.reason]).toEqual([409, 'Conflict']);
    expect(put.body.message).toContain(`Precondition failed: UID in precondition: ${uid}, UID in object meta: `);
  });
});
