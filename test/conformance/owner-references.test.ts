import { afterAll, describe, expect, it } from 'vitest';
import { merge } from '../support/kube-http.ts';
import { openTarget } from './target.ts';

const target = await openTarget();
const maps = `${target.home}/configmaps`;
const ownerOf = ({ metadata: { name, uid } }: { metadata: { name: string; uid: string } }) => ({
  apiVersion: 'v1',
  kind: 'ConfigMap',
  name,
  uid,
});
const pair = async (what: string, finalizers: string[] = [], blockOwnerDeletion = false) => {
  const owner = await target.create('configmaps', { metadata: { name: `${what}-owner` } });
  const metadata = { name: `${what}-owned`, ownerReferences: [{ ...ownerOf(owner), blockOwnerDeletion }], finalizers };
  await target.create('configmaps', { metadata });
  return `${maps}/${what}-owner`;
};
afterAll(() => target.close());

describe('owned objects', () => {
  it('go after their owner', async () => {
    const owner = await pair('background');
    expect((await target.call('DELETE', owner)).body.status).toBe('Success');
    await target.gone('configmaps/background-owned');
  });

  it('that block it go before it in the foreground', async () => {
    const owner = await pair('foreground', ['example.com/hold'], true);
    const { body } = await target.call('DELETE', owner, { propagationPolicy: 'Foreground' });
    expect(body.metadata.finalizers).toEqual(['foregroundDeletion']);
    await target.until('configmaps/foreground-owned', ({ metadata }) => metadata.deletionTimestamp);
    expect((await target.call('GET', owner)).code).toBe(200);
    await target.call('PATCH', `${maps}/foreground-owned`, { metadata: { finalizers: null } }, merge);
    await target.gone('configmaps/foreground-owner');
  });

  it('that do not block it are deleted, and not waited for', async () => {
    await target.call('DELETE', await pair('free', ['example.com/hold']), { propagationPolicy: 'Foreground' });
    await target.gone('configmaps/free-owner');
    await target.until('configmaps/free-owned', ({ metadata }) => metadata.deletionTimestamp);
    await target.call('PATCH', `${maps}/free-owned`, { metadata: { finalizers: null } }, merge);
  });

  it('stay without it when they are orphaned', async () => {
    const owner = await pair('orphan');
    await target.call('DELETE', owner, { propagationPolicy: 'Orphan' });
    await target.gone('configmaps/orphan-owner');
    const { metadata } = await target.until('configmaps/orphan-owned', () => true);
    expect(metadata.ownerReferences ?? []).toEqual([]);
  });

  it('of an owner that is not there go by themselves', async () => {
    const ghost = { metadata: { name: 'ghost', uid: '00000000-0000-4000-8000-000000000000' } };
    await target.create('configmaps', { metadata: { name: 'stray', ownerReferences: [ownerOf(ghost)] } });
    await target.gone('configmaps/stray');
  });
});
