import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Api, claimBody, eventually, merge, podBody, startApi } from './local-cluster-client.ts';

let api: Api;
let count = 0;
let home: string;
let namespace: string;
const configMaps = () => `${home}/configmaps`;

beforeAll(async () => {
  api = await startApi();
});
afterAll(() => api.close());
beforeEach(async () => {
  count += 1;
  namespace = `t${count}`;
  home = `/api/v1/namespaces/${namespace}`;
  await api.call('POST', '/api/v1/namespaces', { metadata: { name: namespace } });
});

describe('deleting', () => {
  it('honours preconditions, as 409 with the kind in it', async () => {
    const { body } = await api.call('POST', configMaps(), { metadata: { name: 'a' } });
    const path = `${configMaps()}/a`;
    const otherUid = await api.call('DELETE', path, { preconditions: { uid: 'x' } });
    expect(otherUid).toMatchObject({
      code: 409,
      body: { details: { kind: 'ConfigMap' }, message: expect.stringContaining('the UID in the precondition (x)') },
    });
    expect((await api.call('DELETE', path, { preconditions: { uid: body.metadata.uid, resourceVersion: '1' } })).code).toBe(409);
    const done = await api.call('DELETE', path, {
      preconditions: { uid: body.metadata.uid, resourceVersion: body.metadata.resourceVersion },
    });
    expect(done.body).toMatchObject({
      kind: 'Status',
      status: 'Success',
      details: { name: 'a', kind: 'configmaps', uid: body.metadata.uid },
    });
    expect((await api.call('DELETE', path)).code).toBe(404);
  });

  it('removes an unscheduled Pod at once and gives a scheduled one its grace', async () => {
    await api.call('POST', `${home}/pods`, podBody('waiting', { nodeSelector: { no: 'node' } }));
    expect((await api.call('DELETE', `${home}/pods/waiting`)).body.metadata.deletionGracePeriodSeconds).toBe(0);
    expect((await api.call('GET', `${home}/pods/waiting`)).code).toBe(404);
    await api.call('POST', `${home}/pods`, podBody('running'));
    const { body } = await api.call('DELETE', `${home}/pods/running`, { gracePeriodSeconds: 7 });
    expect(body.metadata).toMatchObject({ deletionGracePeriodSeconds: 7, generation: 2 });
    expect(Date.parse(body.metadata.deletionTimestamp) - Date.now()).toBeGreaterThan(4000);
    await eventually(async () => ((await api.call('GET', `${home}/pods/running`)).code === 404 ? true : undefined));
  });

  it('keeps what has finalizers until they are gone, and takes no new ones', async () => {
    await api.call('POST', configMaps(), { metadata: { name: 'f', finalizers: ['a.b/c'] } });
    const path = `${configMaps()}/f`;
    expect((await api.call('DELETE', path)).body.metadata.deletionTimestamp).toBeDefined();
    const more = await api.call('PATCH', path, { metadata: { finalizers: ['a.b/c', 'd.e/f'] } }, merge);
    expect(more.body.message).toContain('no new finalizers can be added if the object is being deleted');
    expect((await api.call('PATCH', path, { metadata: { finalizers: null } }, merge)).code).toBe(200);
    expect((await api.call('GET', path)).code).toBe(404);
  });

  it('keeps a claim that a Pod uses until the Pod is gone', async () => {
    await api.call('POST', `${home}/persistentvolumeclaims`, claimBody('c'));
    const volumes = [{ name: 'v', persistentVolumeClaim: { claimName: 'c' } }];
    await api.call('POST', `${home}/pods`, podBody('user', { volumes }));
    await api.call('DELETE', `${home}/persistentvolumeclaims/c`);
    expect((await api.call('GET', `${home}/persistentvolumeclaims/c`)).body.metadata.deletionTimestamp).toBeDefined();
    await api.call('DELETE', `${home}/pods/user`);
    await eventually(async () => ((await api.call('GET', `${home}/persistentvolumeclaims/c`)).code === 404 ? true : undefined));
  });

  it('follows owner references: background, foreground and orphan', async () => {
    const owned = async (owner: string, name: string) => {
      const { body } = await api.call('POST', configMaps(), { metadata: { name: owner } });
      const reference = { apiVersion: 'v1', kind: 'ConfigMap', name: owner, uid: body.metadata.uid, blockOwnerDeletion: true };
      await api.call('POST', configMaps(), { metadata: { name, ownerReferences: [reference], finalizers: ['a.b/c'] } });
    };
    const isThere = async (name: string) => (await api.call('GET', `${configMaps()}/${name}`)).code === 200;
    const release = (name: string) => api.call('PATCH', `${configMaps()}/${name}`, { metadata: { finalizers: null } }, merge);
    await owned('fore', 'fore-child');
    const foreground = await api.call('DELETE', `${configMaps()}/fore?propagationPolicy=Foreground`);
    expect(foreground.body.metadata.finalizers).toEqual(['foregroundDeletion']);
    await eventually(async () => (await api.call('GET', `${configMaps()}/fore-child`)).body.metadata?.deletionTimestamp);
    expect(await isThere('fore')).toBe(true);
    await release('fore-child');
    await eventually(async () => ((await isThere('fore')) ? undefined : true));
    await owned('back', 'back-child');
    await api.call('DELETE', `${configMaps()}/back`);
    expect(await isThere('back')).toBe(false);
    await eventually(async () => (await api.call('GET', `${configMaps()}/back-child`)).body.metadata?.deletionTimestamp);
    await owned('lone', 'lone-child');
    await api.call('DELETE', `${configMaps()}/lone?propagationPolicy=Orphan`);
    await eventually(async () => ((await isThere('lone')) ? undefined : true));
    expect((await api.call('GET', `${configMaps()}/lone-child`)).body.metadata.deletionTimestamp).toBeUndefined();
    await release('lone-child');
    await release('back-child');
  });

  it('empties a namespace before it goes, and refuses new objects meanwhile', async () => {
    await api.call('POST', configMaps(), { metadata: { name: 'hold', finalizers: ['a.b/c'] } });
    await api.call('POST', `${home}/pods`, podBody('p'));
    const { body } = await api.call('DELETE', home);
    expect(body.status.phase).toBe('Terminating');
    const late = await api.call('POST', configMaps(), { metadata: { name: 'late' } });
    expect(late).toMatchObject({
      code: 403,
      body: {
        message: `configmaps "late" is forbidden: unable to create new content in namespace ${namespace} because it is being terminated`,
        details: { causes: [{ reason: 'NamespaceTerminating' }] },
      },
    });
    await eventually(async () => ((await api.call('GET', `${home}/pods/p`)).code === 404 ? true : undefined));
    expect((await api.call('GET', home)).code).toBe(200);
    await api.call('PATCH', `${configMaps()}/hold`, { metadata: { finalizers: null } }, merge);
    await eventually(async () => ((await api.call('GET', home)).code === 404 ? true : undefined));
  });

  it('refuses to delete the namespaces that a cluster needs', async () => {
    const { code, body } = await api.call('DELETE', '/api/v1/namespaces/default');
    expect([code, body.message]).toEqual([403, 'namespaces "default" is forbidden: this namespace may not be deleted']);
  });

  it('deletes a selection', async () => {
    for (const name of ['a', 'b']) await api.call('POST', configMaps(), { metadata: { name, labels: { own: name } } });
    const { body } = await api.call('DELETE', `${configMaps()}?labelSelector=own%3Da`);
    expect(body.items.map(({ metadata }: { metadata: { name: string } }) => metadata.name)).toEqual(['a']);
    expect((await api.call('GET', `${configMaps()}/b`)).code).toBe(200);
  });
});

describe('policies', () => {
  it('enforces quotas in the words of the real server', async () => {
    const hard = { pods: '1', 'requests.cpu': '1', persistentvolumeclaims: '1', 'requests.storage': '1Gi' };
    await api.call('POST', `${home}/resourcequotas`, { metadata: { name: 'q' }, spec: { hard } });
    const unnamed = await api.call('POST', `${home}/pods`, podBody('p'));
    expect(unnamed.body.message).toBe('pods "p" is forbidden: failed quota: q: must specify requests.cpu for: c');
    const claim = await api.call('POST', `${home}/persistentvolumeclaims`, claimBody('c', '2Gi'));
    expect(claim).toMatchObject({
      code: 403,
      body: {
        reason: 'Forbidden',
        message:
          'persistentvolumeclaims "c" is forbidden: exceeded quota: q, requested: requests.storage=2Gi, used: requests.storage=0, limited: requests.storage=1Gi',
      },
    });
    const container = { name: 'c', image: 'x', resources: { requests: { cpu: '600m' } } };
    expect((await api.call('POST', `${home}/pods`, podBody('one', { containers: [container] }))).code).toBe(201);
    const second = await api.call('POST', `${home}/pods`, podBody('two', { containers: [container] }));
    expect(second.body.message).toContain(
      'exceeded quota: q, requested: pods=1,requests.cpu=600m, used: pods=1,requests.cpu=600m, limited: pods=1,requests.cpu=1',
    );
    const used = await eventually(async () => (await api.call('GET', `${home}/resourcequotas/q`)).body.status.used);
    expect(used).toMatchObject({ pods: '1', 'requests.cpu': '600m' });
  });

  it('enforces the restricted Pod Security level', async () => {
    await api.call('PATCH', home, { metadata: { labels: { 'pod-security.kubernetes.io/enforce': 'restricted' } } }, merge);
    const refused = await api.call('POST', `${home}/pods`, podBody('p'));
    expect(refused).toMatchObject({
      code: 403,
      body: { message: expect.stringContaining('violates PodSecurity "restricted:latest": allowPrivilegeEscalation != false') },
    });
    const securityContext = {
      allowPrivilegeEscalation: false,
      runAsNonRoot: true,
      capabilities: { drop: ['ALL'] },
      seccompProfile: { type: 'RuntimeDefault' },
    };
    const allowed = await api.call(
      'POST',
      `${home}/pods`,
      podBody('p', { containers: [{ name: 'c', image: 'x', securityContext }] }),
    );
    expect(allowed.code).toBe(201);
  });
});
