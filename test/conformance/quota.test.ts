import { afterAll, expect, it } from 'vitest';
import { claimOf, openTarget, podOf } from './target.ts';

const target = await openTarget();
const pods = `${target.home}/pods`;
afterAll(() => target.close());

it('what a quota forbids is refused with 403 in the words that a launch waits on', async () => {
  const hard = { pods: '1', 'requests.storage': '20Mi' };
  await target.create('resourcequotas', { metadata: { name: 'limits' }, spec: { hard } });
  await target.until('resourcequotas/limits', ({ status }) => status.used?.pods === '0');
  const asleep = { nodeSelector: { no: 'node' } };
  await target.create('pods', podOf(target, 'one', 'true', asleep));
  const { code, body } = await target.call('POST', pods, podOf(target, 'two', 'true', asleep));
  expect([code, body.reason]).toEqual([403, 'Forbidden']);
  expect(body.message).toBe('pods "two" is forbidden: exceeded quota: limits, requested: pods=1, used: pods=1, limited: pods=1');
  expect(body.details).toEqual({ name: 'two', kind: 'pods' });
  await expect(target.cluster.create('pods', podOf(target, 'two', 'true', asleep))).rejects.toMatchObject({
    code: 'quota_exceeded',
  });

  await target.create('persistentvolumeclaims', claimOf('a', target.classes.firstConsumer));
  const claim = await target.call('POST', `${target.home}/persistentvolumeclaims`, claimOf('b', target.classes.firstConsumer));
  expect(claim.body.message).toBe(
    'persistentvolumeclaims "b" is forbidden: exceeded quota: limits, requested: requests.storage=16Mi, used: requests.storage=16Mi, limited: requests.storage=20Mi',
  );

  await target.call('DELETE', `${pods}/one`);
  await target.until('resourcequotas/limits', ({ status }) => status.used.pods === '0');
  expect((await target.call('POST', pods, podOf(target, 'two', 'true', asleep))).code).toBe(201);
});

it('a quota on memory makes every container name it', async () => {
  await target.create('resourcequotas', { metadata: { name: 'memory' }, spec: { hard: { 'limits.memory': '1Gi' } } });
  await target.until('resourcequotas/memory', ({ status }) => status.used?.['limits.memory'] === '0');
  const { code, body } = await target.call('POST', pods, podOf(target, 'three', 'true'));
  expect(code).toBe(403);
  expect(body.message).toContain('failed quota: memory: must specify limits.memory for: main');
});
