import { afterAll, describe, expect, it } from 'vitest';
import type { KubeObject } from '../../src/local-cluster/types.ts';
import { merge } from '../support/kube-http.ts';
import { claimOf, openTarget, podOf } from './target.ts';

const target = await openTarget();
const claim = (name: string) => `persistentvolumeclaims/${name}`;
const bound = ({ status }: KubeObject) => status.phase === 'Bound';
const using = (name: string, claimName: string, script: string) =>
  podOf(
    target,
    name,
    script,
    { volumes: [{ name: 'v', persistentVolumeClaim: { claimName } }] },
    { volumeMounts: [{ name: 'v', mountPath: '/data' }] },
  );
afterAll(() => target.close());

describe('a claim', () => {
  it('of an immediate class binds at once, to a volume that names it', async () => {
    const made = await target.create('persistentvolumeclaims', claimOf('now', target.classes.immediate));
    expect(made.status).toEqual({ phase: 'Pending' });
    const { spec, status, metadata } = await target.until(claim('now'), bound);
    expect(status).toMatchObject({ accessModes: ['ReadWriteOnce'], capacity: { storage: '16Mi' } });
    const volume = await target.call('GET', `/api/v1/persistentvolumes/${spec.volumeName}`);
    expect(volume.body.spec).toMatchObject({
      claimRef: { kind: 'PersistentVolumeClaim', name: 'now', namespace: target.namespace, uid: metadata.uid },
      persistentVolumeReclaimPolicy: 'Delete',
      storageClassName: target.classes.immediate,
    });
    expect(volume.body.status.phase).toBe('Bound');
  });

  it('that waits for its first consumer binds when a Pod needs it, and not before', async () => {
    const { metadata } = await target.create('persistentvolumeclaims', claimOf('later', target.classes.firstConsumer));
    expect((await target.event(metadata.uid, 'WaitForFirstConsumer')).message).toBe(
      'waiting for first consumer to be created before binding',
    );
    expect(bound(await target.until(claim('later'), () => true))).toBe(false);
    await target.create('pods', using('consumer', 'later', 'exec sleep 1000'));
    await target.until('pods/consumer', ({ status }) => status.phase === 'Running');
    expect(bound(await target.until(claim('later'), () => true))).toBe(true);
  });

  it('without a class gets the default one', async () => {
    const { storageClassName: _, ...spec } = claimOf('plain', '').spec;
    const made = await target.create('persistentvolumeclaims', { metadata: { name: 'plain' }, spec });
    expect(made.spec).toMatchObject({ storageClassName: target.classes.firstConsumer, volumeMode: 'Filesystem' });
  });

  it('keeps what one Pod wrote for the next, and takes its volume along when it goes', async () => {
    await target.create('persistentvolumeclaims', claimOf('data', target.classes.immediate));
    const { spec } = await target.until(claim('data'), bound);
    await target.create('pods', using('writer', 'data', 'echo kept > /data/file'));
    await target.until('pods/writer', ({ status }) => status.phase === 'Succeeded');
    await target.call('DELETE', `${target.home}/pods/writer`);
    await target.create('pods', using('reader', 'data', 'grep kept /data/file'));
    await target.until('pods/reader', ({ status }) => status.phase === 'Succeeded');
    await target.call('DELETE', `${target.home}/pods/reader`);
    await target.gone('pods/reader');
    await target.call('DELETE', `${target.home}/${claim('data')}`);
    await target.gone(claim('data'));
    const volume = `../../persistentvolumes/${spec.volumeName}`;
    await target.gone(volume);
  });

  it('of a class that is not there stays Pending, and its Pod unscheduled', async () => {
    const { metadata } = await target.create('persistentvolumeclaims', claimOf('lost', 'windlass-no-such-class'));
    expect((await target.event(metadata.uid, 'ProvisioningFailed')).message).toBe(
      'storageclass.storage.k8s.io "windlass-no-such-class" not found',
    );
    await target.create('pods', using('stuck', 'lost', 'true'));
    const pod = await target.until('pods/stuck', ({ status }) => status.conditions?.[0]?.reason === 'Unschedulable');
    expect(pod.status.conditions[0].message).toMatch(
      /^0\/1 nodes are available: pod has unbound immediate PersistentVolumeClaims\./,
    );
  });

  it('keeps labels that are patched while it is bound', async () => {
    const patched = await target.call('PATCH', `${target.home}/${claim('now')}`, { metadata: { labels: { l: 'v' } } }, merge);
    expect(patched.body).toMatchObject({ metadata: { labels: { l: 'v' } }, status: { phase: 'Bound' } });
  });
});
