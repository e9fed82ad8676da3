import { afterAll, expect, it } from 'vitest';
import { merge } from '../support/kube-http.ts';
import { openTarget } from './target.ts';

const target = await openTarget();
afterAll(() => target.close());

it('a namespace that is being deleted takes nothing new, and goes when it is empty', async () => {
  const { namespace } = target;
  await target.create('configmaps', { metadata: { name: 'held', finalizers: ['example.com/hold'] } });
  const deleted = await target.call('DELETE', `/api/v1/namespaces/${namespace}`);
  expect(deleted.body).toMatchObject({ kind: 'Namespace', status: { phase: 'Terminating' } });
  const { code, body } = await target.call('POST', `${target.home}/configmaps`, { metadata: { name: 'late' } });
  expect([code, body.reason]).toEqual([403, 'Forbidden']);
  expect(body.message).toBe(
    `configmaps "late" is forbidden: unable to create new content in namespace ${namespace} because it is being terminated`,
  );
  expect(body.details).toEqual({
    name: 'late',
    kind: 'configmaps',
    causes: [
      { reason: 'NamespaceTerminating', message: `namespace ${namespace} is being terminated`, field: 'metadata.namespace' },
    ],
  });
  await expect(target.cluster.create('configmaps', { metadata: { name: 'late', namespace } })).rejects.toMatchObject({
    code: 'namespace_terminating',
  });
  expect((await target.call('POST', '/api/v1/namespaces', { metadata: { name: namespace } })).body.message).toBe(
    `object is being deleted: namespaces "${namespace}" already exists`,
  );
  await target.until('configmaps/held', ({ metadata }) => metadata.deletionTimestamp);
  await target.call('PATCH', `${target.home}/configmaps/held`, { metadata: { finalizers: null } }, merge);
  await target.gone('');
});
