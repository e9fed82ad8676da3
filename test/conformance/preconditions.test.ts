import { afterAll, describe, expect, it } from 'vitest';
import { openTarget } from './target.ts';

const target = await openTarget();
const path = (name: string) => `${target.home}/configmaps/${name}`;
afterAll(() => target.close());

describe('a delete with preconditions', () => {
  it('is refused for another uid, and says which is there', async () => {
    const { metadata } = await target.create('configmaps', { metadata: { name: 'a' } });
    const { code, body } = await target.call('DELETE', path('a'), { preconditions: { uid: 'other' } });
    expect([code, body.reason]).toEqual([409, 'Conflict']);
    expect(body.message).toBe(
      `Operation cannot be fulfilled on ConfigMap "a": the UID in the precondition (other) does not match the UID in record (${metadata.uid}). The object might have been deleted and then recreated`,
    );
    expect(body.details).toEqual({ name: 'a', kind: 'ConfigMap' });
    expect((await target.call('GET', path('a'))).code).toBe(200);
  });

  it('is refused for a version that is no longer the latest', async () => {
    const { metadata } = await target.create('configmaps', { metadata: { name: 'b' } });
    const changed = await target.call('PUT', path('b'), { metadata: { name: 'b' }, data: { x: '1' } });
    const stale = { uid: metadata.uid, resourceVersion: metadata.resourceVersion };
    const { code, body } = await target.call('DELETE', path('b'), { preconditions: stale });
    expect(code).toBe(409);
    expect(body.message).toContain(
      `the ResourceVersion in the precondition (${metadata.resourceVersion}) does not match the ResourceVersion in record (${changed.body.metadata.resourceVersion})`,
    );
    const fresh = { uid: metadata.uid, resourceVersion: changed.body.metadata.resourceVersion };
    const deleted = await target.call('DELETE', path('b'), { preconditions: fresh });
    expect(deleted.body).toEqual({
      kind: 'Status',
      apiVersion: 'v1',
      metadata: {},
      status: 'Success',
      details: { name: 'b', kind: 'configmaps', uid: metadata.uid },
    });
    expect((await target.call('DELETE', path('b'), { preconditions: fresh })).code).toBe(404);
  });

  it('reaches the adapter as gone, or as a conflict', async () => {
    const { metadata } = await target.create('configmaps', { metadata: { name: 'c' } });
    expect(await target.cluster.remove('configmaps', 'c', { uid: '00000000-0000-4000-8000-000000000000' })).toBe('gone');
    const stale = { uid: metadata.uid, resourceVersion: '1' };
    await expect(target.cluster.remove('configmaps', 'c', stale)).rejects.toMatchObject({ code: 'conflict' });
    expect(await target.cluster.remove('configmaps', 'c', { uid: metadata.uid })).toBe('gone');
  });
});
