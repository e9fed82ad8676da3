import { afterAll, describe, expect, it } from 'vitest';
import { merge } from '../support/kube-http.ts';
import { openTarget, podOf } from './target.ts';

const target = await openTarget();
const maps = `${target.home}/configmaps`;
afterAll(() => target.close());

describe('a dry run', () => {
  it('answers as the create would, and leaves nothing', async () => {
    const { code, body } = await target.call('POST', `${target.home}/pods?dryRun=All`, podOf(target, 'dry', 'true'));
    expect(code).toBe(201);
    expect(body.metadata.uid).toBeTruthy();
    expect(body.metadata.creationTimestamp).toBeTruthy();
    expect(body.metadata.resourceVersion).toBeUndefined();
    expect(body.spec.serviceAccountName).toBe('default');
    expect((await target.call('GET', `${target.home}/pods/dry`)).code).toBe(404);
  });

  it('is refused where the create would be', async () => {
    await target.create('configmaps', { metadata: { name: 'there' } });
    expect((await target.call('POST', `${maps}?dryRun=All`, { metadata: { name: 'there' } })).body.reason).toBe('AlreadyExists');
    expect((await target.call('POST', `${maps}?dryRun=All`, { metadata: { name: 'A_' } })).code).toBe(422);
    expect((await target.call('POST', `${maps}?dryRun=Some`, { metadata: { name: 'b' } })).code).toBe(422);
  });

  it('changes and deletes nothing', async () => {
    const { metadata } = await target.create('configmaps', { metadata: { name: 'kept' }, data: { a: '1' } });
    const patched = await target.call('PATCH', `${maps}/kept?dryRun=All`, { data: { a: '2' } }, merge);
    expect(patched.body.data).toEqual({ a: '2' });
    expect((await target.call('DELETE', `${maps}/kept?dryRun=All`)).code).toBe(200);
    expect((await target.call('DELETE', `${maps}/kept`, { dryRun: ['All'] })).code).toBe(200);
    const read = (await target.call('GET', `${maps}/kept`)).body;
    expect([read.data, read.metadata.resourceVersion]).toEqual([{ a: '1' }, metadata.resourceVersion]);
  });
});
