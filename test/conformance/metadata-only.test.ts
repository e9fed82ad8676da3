import { afterAll, describe, expect, it } from 'vitest';
import { openTarget } from './target.ts';

const target = await openTarget();
const maps = `${target.home}/configmaps`;
afterAll(() => target.close());

describe('metadata only', () => {
  it('is what a list, a read and a watch give when asked', async () => {
    await target.create('configmaps', { metadata: { name: 'a', labels: { l: 'v' } }, data: { k: 'v' } });
    const accept = (kind: string) => ({ accept: `application/json;as=${kind};g=meta.k8s.io;v=v1` });
    const list = (await target.call('GET', `${maps}?labelSelector=l`, undefined, accept('PartialObjectMetadataList'))).body;
    expect(list).toMatchObject({ kind: 'PartialObjectMetadataList', apiVersion: 'meta.k8s.io/v1' });
    expect(list.items).toHaveLength(1);
    expect(list.items[0].metadata.labels).toEqual({ l: 'v' });
    expect(list.items[0].data).toBeUndefined();
    const one = (await target.call('GET', `${maps}/a`, undefined, accept('PartialObjectMetadata'))).body;
    expect(one).toMatchObject({ kind: 'PartialObjectMetadata', apiVersion: 'meta.k8s.io/v1', metadata: { name: 'a' } });
    expect(one.data).toBeUndefined();
    const watch = await target.watch(`${maps}?watch=1&labelSelector=l`, accept('PartialObjectMetadata'));
    const { object } = await watch.until(({ type }) => type === 'ADDED');
    watch.stop();
    expect(object).toMatchObject({ kind: 'PartialObjectMetadata', metadata: { name: 'a' } });
    expect(object.data).toBeUndefined();
  });
});
