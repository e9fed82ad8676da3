import { afterAll, describe, expect, it } from 'vitest';
import { merge } from '../support/kube-http.ts';
import { claimOf, openTarget, podOf } from './target.ts';

const target = await openTarget();
const maps = `${target.home}/configmaps`;
const claims = `${target.home}/persistentvolumeclaims`;
afterAll(() => target.close());

describe('finalizers', () => {
  it('keep a deleted object until they are gone, and none may be added', async () => {
    await target.create('configmaps', { metadata: { name: 'held', finalizers: ['example.com/hold'] } });
    const deleted = await target.call('DELETE', `${maps}/held`);
    expect([deleted.code, deleted.body.kind]).toEqual([200, 'ConfigMap']);
    expect(deleted.body.metadata).toMatchObject({ deletionGracePeriodSeconds: 0, finalizers: ['example.com/hold'] });
    const more = await target.call(
      'PATCH',
      `${maps}/held`,
      { metadata: { finalizers: ['example.com/hold', 'example.com/more'] } },
      merge,
    );
    expect(more.code).toBe(422);
    expect(more.body.message).toContain('no new finalizers can be added if the object is being deleted');
    expect((await target.call('POST', maps, { metadata: { name: 'held' } })).body).toMatchObject({
      reason: 'AlreadyExists',
      message: 'object is being deleted: configmaps "held" already exists',
    });
    expect((await target.call('PATCH', `${maps}/held`, { metadata: { finalizers: null } }, merge)).code).toBe(200);
    expect((await target.call('GET', `${maps}/held`)).code).toBe(404);
  });

  it('must have a name with a domain', async () => {
    const { code } = await target.call('POST', maps, { metadata: { name: 'bad', finalizers: ['plain word'] } });
    expect(code).toBe(422);
  });

  it('keep a Pod after its processes have ended', async () => {
    const body = podOf(target, 'held', 'exec sleep 1000');
    await target.create('pods', { ...body, metadata: { name: 'held', finalizers: ['example.com/hold'] } });
    await target.until('pods/held', ({ status }) => status.phase === 'Running');
    await target.call('DELETE', `${target.home}/pods/held`);
    await target.until('pods/held', ({ status }) => status.containerStatuses[0].state.terminated);
    await target.call('PATCH', `${target.home}/pods/held`, { metadata: { finalizers: null } }, merge);
    await target.gone('pods/held');
  });

  it('protect a claim while a Pod uses it', async () => {
    const made = await target.create('persistentvolumeclaims', claimOf('used', target.classes.firstConsumer));
    expect(made.metadata.finalizers).toEqual(['kubernetes.io/pvc-protection']);
    const volumes = [{ name: 'v', persistentVolumeClaim: { claimName: 'used' } }];
    await target.create('pods', podOf(target, 'user', 'exec sleep 1000', { volumes }));
    await target.until('pods/user', ({ status }) => status.phase === 'Running');
    expect((await target.call('DELETE', `${claims}/used`)).body.metadata.deletionTimestamp).toBeTruthy();
    expect((await target.call('GET', `${claims}/used`)).body.metadata.finalizers).toEqual(['kubernetes.io/pvc-protection']);
    await target.call('DELETE', `${target.home}/pods/user`);
    await target.gone('pods/user');
    await target.gone('persistentvolumeclaims/used');
  });

  it('let an unused claim go', async () => {
    await target.create('persistentvolumeclaims', claimOf('unused', target.classes.firstConsumer));
    await target.call('DELETE', `${claims}/unused`);
    await target.gone('persistentvolumeclaims/unused');
  });
});
