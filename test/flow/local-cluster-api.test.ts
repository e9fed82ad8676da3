import { readFile, stat } from 'node:fs/promises';
import { request } from 'undici';
import { afterAll, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { type Api, claimBody, jsonPatch, merge, podBody, startApi, strategic } from './local-cluster-client.ts';

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

describe('the way in', () => {
  it('writes a kubeconfig for its owner only', async () => {
    expect((await stat(api.kubeconfig)).mode & 0o777).toBe(0o600);
    expect(await readFile(api.kubeconfig, 'utf8')).toContain('current-context: windlass-local');
  });

  it('refuses every token but its own, and no token, with 401', async () => {
    for (const headers of [{}, { authorization: 'Bearer wrong' }, { authorization: 'Basic eDp5' }]) {
      const reply = await request(`${api.cluster.url}/api/v1/pods`, { dispatcher: api.agent, headers });
      expect(reply.statusCode).toBe(401);
      expect(await reply.body.json()).toMatchObject({ kind: 'Status', reason: 'Unauthorized', code: 401 });
    }
  });

  it('carries the server time on every answer', async () => {
    const { headers } = await api.call('GET', '/readyz');
    expect(Math.abs(Date.parse(String(headers.date)) - Date.now())).toBeLessThan(5000);
  });

  it('describes itself to kubectl and client-node', async () => {
    expect((await api.call('GET', '/version')).body.minor).toBe('34');
    expect((await api.call('GET', '/api')).body.versions).toEqual(['v1']);
    const groups = (await api.call('GET', '/apis')).body.groups.map(({ name }: { name: string }) => name);
    expect(groups).toEqual(expect.arrayContaining(['storage.k8s.io', 'coordination.k8s.io', 'authorization.k8s.io']));
    const { resources } = (await api.call('GET', '/api/v1')).body;
    expect(resources).toContainEqual(expect.objectContaining({ name: 'pods', shortNames: ['po'], namespaced: true }));
    const { paths } = (await api.call('GET', '/openapi/v3')).body;
    const document = (await api.call('GET', paths['api/v1'].serverRelativeURL)).body;
    const { patch } = document.paths['/api/v1/namespaces/{namespace}/pods/{name}'];
    expect(patch['x-kubernetes-group-version-kind']).toEqual({ group: '', version: 'v1', kind: 'Pod' });
    expect(patch.parameters.map(({ name }: { name: string }) => name)).toContain('fieldValidation');
  });

  it.each([
    ['GET', '/api/v1/foo', 404],
    ['GET', '/apis/foo/v1/bars', 404],
    ['DELETE', '/api/v1/namespaces', 405],
    ['PUT', '/api/v1/namespaces/default/pods', 405],
    ['POST', '/api/v1/pods', 405],
  ])('answers %s %s with %i', async (method, path, code) => {
    expect((await api.call(method, path, method === 'GET' ? undefined : {})).code).toBe(code);
  });
});

describe('creating', () => {
  it('fills in what the real server fills in for a Pod', async () => {
    const probe = { httpGet: { port: 80 } };
    const body = podBody('p', {
      nodeSelector: { no: 'node' },
      volumes: [{ name: 'e' }, { name: 'm', configMap: { name: 'x' } }],
    });
    Object.assign(body.spec.containers[0]!, {
      readinessProbe: probe,
      ports: [{ containerPort: 80 }],
      resources: { limits: { cpu: '1' } },
    });
    const { code, body: pod } = await api.call('POST', `${home}/pods`, body);
    expect(code).toBe(201);
    expect(pod).toMatchObject({
      metadata: { namespace, generation: 1 },
      spec: {
        restartPolicy: 'Always',
        dnsPolicy: 'ClusterFirst',
        terminationGracePeriodSeconds: 30,
        serviceAccountName: 'default',
        serviceAccount: 'default',
        enableServiceLinks: true,
        schedulerName: 'default-scheduler',
        securityContext: {},
        priority: 0,
        preemptionPolicy: 'PreemptLowerPriority',
        volumes: [{ emptyDir: {} }, { configMap: { defaultMode: 420 } }, { projected: { defaultMode: 420 } }],
      },
      status: { phase: 'Pending', qosClass: 'Burstable' },
    });
    expect(pod.spec.containers[0]).toMatchObject({
      imagePullPolicy: 'IfNotPresent',
      terminationMessagePath: '/dev/termination-log',
      terminationMessagePolicy: 'File',
      resources: { requests: { cpu: '1' } },
      ports: [{ protocol: 'TCP' }],
      readinessProbe: {
        periodSeconds: 10,
        timeoutSeconds: 1,
        failureThreshold: 3,
        successThreshold: 1,
        httpGet: { path: '/', scheme: 'HTTP' },
      },
    });
    expect(pod.spec.tolerations).toHaveLength(2);
  });

  it('gives a claim its default class, mode and protection', async () => {
    const { body } = await api.call('POST', `${home}/persistentvolumeclaims`, claimBody('c'));
    expect(body).toMatchObject({
      metadata: { finalizers: ['kubernetes.io/pvc-protection'] },
      spec: { storageClassName: 'standard', volumeMode: 'Filesystem' },
      status: { phase: 'Pending' },
    });
  });

  it('answers a taken name, a missing namespace, a bad body and a bad name as the real server does', async () => {
    await api.call('POST', configMaps(), { metadata: { name: 'a' } });
    const again = await api.call('POST', configMaps(), { metadata: { name: 'a' } });
    expect(again).toMatchObject({
      code: 409,
      body: { reason: 'AlreadyExists', message: 'configmaps "a" already exists', details: { name: 'a', kind: 'configmaps' } },
    });
    const nowhere = await api.call('POST', '/api/v1/namespaces/nope/configmaps', { metadata: { name: 'a' } });
    expect(nowhere).toMatchObject({ code: 404, body: { reason: 'NotFound', message: 'namespaces "nope" not found' } });
    expect(await api.call('POST', configMaps(), '{"kind":')).toMatchObject({ code: 400, body: { reason: 'BadRequest' } });
    expect(await api.call('POST', configMaps(), { kind: 'Pod', metadata: { name: 'a' } })).toMatchObject({ code: 400 });
    const invalid = await api.call('POST', configMaps(), { metadata: { name: 'A_' } });
    expect(invalid).toMatchObject({ code: 422, body: { reason: 'Invalid', details: { causes: [{ field: 'metadata.name' }] } } });
    const empty = await api.call('POST', `${home}/pods`, { metadata: { name: 'p' } });
    expect(empty.body.message).toBe('Pod "p" is invalid: spec.containers: Required value');
  });

  it('makes a name from generateName', async () => {
    const { body } = await api.call('POST', configMaps(), { metadata: { generateName: 'x-' } });
    expect(body.metadata.name).toMatch(/^x-[a-z0-9]{5}$/);
  });

  it('writes nothing in a dry run, but checks everything', async () => {
    const { code, body } = await api.call('POST', `${configMaps()}?dryRun=All`, { metadata: { name: 'dry' } });
    expect(code).toBe(201);
    expect(body.metadata.uid).toBeDefined();
    expect(body.metadata.resourceVersion).toBeUndefined();
    expect((await api.call('GET', `${configMaps()}/dry`)).code).toBe(404);
    expect((await api.call('POST', `${configMaps()}?dryRun=All`, { metadata: { name: 'A_' } })).code).toBe(422);
  });

  it('reads YAML, and says what to send instead of protobuf, SPDY and server-side apply', async () => {
    const yaml = { 'content-type': 'application/yaml' };
    expect((await api.call('POST', configMaps(), 'metadata: {name: y}', yaml)).code).toBe(201);
    const protobuf = await api.call('POST', configMaps(), 'k8s', { 'content-type': 'application/vnd.kubernetes.protobuf' });
    expect(protobuf).toMatchObject({ code: 415, body: { message: expect.stringContaining('kubectl apply -f') } });
    const apply = await api.call('PATCH', `${configMaps()}/y`, '{}', { 'content-type': 'application/apply-patch+yaml' });
    expect(apply).toMatchObject({ code: 415, body: { message: expect.stringContaining('--server-side') } });
    expect((await api.call('GET', configMaps(), undefined, { accept: 'application/vnd.kubernetes.protobuf' })).code).toBe(406);
  });
});

describe('changing', () => {
  it('patches in three ways and keeps the version when nothing changes', async () => {
    await api.call('POST', configMaps(), { metadata: { name: 'a' }, data: { x: '1', y: '2' } });
    const path = `${configMaps()}/a`;
    expect((await api.call('PATCH', path, { data: { x: null, z: '3' } }, merge)).body.data).toEqual({ y: '2', z: '3' });
    expect((await api.call('PATCH', path, [{ op: 'replace', path: '/data/y', value: '4' }], jsonPatch)).body.data.y).toBe('4');
    const last = await api.call('PATCH', path, { metadata: { labels: { a: 'b' } } }, strategic);
    const same = await api.call('PATCH', path, { metadata: { labels: { a: 'b' } } }, merge);
    expect(same.body.metadata.resourceVersion).toBe(last.body.metadata.resourceVersion);
    const failed = await api.call('PATCH', path, [{ op: 'test', path: '/data/y', value: 'no' }], jsonPatch);
    expect(failed).toMatchObject({ code: 422, body: { reason: 'Invalid' } });
  });

  it('answers a stale version, another uid and another name', async () => {
    const { body } = await api.call('POST', configMaps(), { metadata: { name: 'a' } });
    const path = `${configMaps()}/a`;
    await api.call('PATCH', path, { data: { x: '1' } }, merge);
    const stale = await api.call('PUT', path, { ...body, data: { x: '2' } });
    expect(stale).toMatchObject({
      code: 409,
      body: { reason: 'Conflict', message: expect.stringContaining('the object has been modified') },
    });
    const stalePatch = await api.call(
      'PATCH',
      path,
      { metadata: { resourceVersion: body.metadata.resourceVersion, labels: { a: 'b' } } },
      merge,
    );
    expect(stalePatch.code).toBe(409);
    expect((await api.call('PATCH', path, { metadata: { uid: 'other' } }, merge)).code).toBe(422);
    expect((await api.call('PUT', path, { metadata: { name: 'b' } })).code).toBe(400);
  });

  it('keeps spec and status apart', async () => {
    await api.call('POST', `${home}/persistentvolumeclaims`, claimBody('c'));
    const path = `${home}/persistentvolumeclaims/c`;
    const main = await api.call('PATCH', path, { status: { phase: 'Bound' }, metadata: { labels: { a: 'b' } } }, merge);
    expect(main.body).toMatchObject({ status: { phase: 'Pending' }, metadata: { labels: { a: 'b' } } });
    const status = await api.call('PATCH', `${path}/status`, { status: { phase: 'Bound' }, spec: { volumeName: 'x' } }, merge);
    expect(status.body.status.phase).toBe('Bound');
    expect(status.body.spec.volumeName).toBeUndefined();
  });

  it('refuses to change what is immutable', async () => {
    await api.call('POST', configMaps(), { metadata: { name: 'i' }, data: { a: 'b' }, immutable: true });
    const map = await api.call('PATCH', `${configMaps()}/i`, { data: { a: 'c' } }, merge);
    expect(map.body.message).toBe('ConfigMap "i" is invalid: data: Forbidden: field is immutable when `immutable` is set');
    await api.call('POST', `${home}/pods`, podBody('p', { nodeSelector: { no: 'node' } }));
    const pod = await api.call('PATCH', `${home}/pods/p`, { spec: { restartPolicy: 'Never' } }, merge);
    expect(pod).toMatchObject({
      code: 422,
      body: { message: expect.stringContaining('pod updates may not change fields other than') },
    });
    const image = await api.call(
      'PATCH',
      `${home}/pods/p`,
      { spec: { containers: [{ name: 'c', image: 'other:x' }] } },
      strategic,
    );
    expect(image).toMatchObject({ code: 200, body: { metadata: { generation: 2 } } });
    await api.call('POST', `${home}/persistentvolumeclaims`, claimBody('c'));
    const claim = await api.call('PATCH', `${home}/persistentvolumeclaims/c`, { spec: { accessModes: ['ReadOnlyMany'] } }, merge);
    expect(claim.body.message).toContain('spec is immutable after creation');
  });
});

describe('reading', () => {
  it('pages, selects, and answers in metadata and Table form', async () => {
    for (const name of ['a', 'b', 'c'])
      await api.call('POST', configMaps(), { metadata: { name, labels: { own: 'x' } }, data: { k: 'v' } });
    const first = (await api.call('GET', `${configMaps()}?limit=2&labelSelector=own%3Dx`)).body;
    const second = (await api.call('GET', `${configMaps()}?limit=2&labelSelector=own%3Dx&continue=${first.metadata.continue}`))
      .body;
    expect([...first.items, ...second.items].map(({ metadata }) => metadata.name)).toEqual(['a', 'b', 'c']);
    expect(first).toMatchObject({ kind: 'ConfigMapList', apiVersion: 'v1' });
    expect(first.items[0].kind).toBeUndefined();
    const partial = { accept: 'application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1' };
    const metadata = (await api.call('GET', `${configMaps()}?fieldSelector=metadata.name%3Db`, undefined, partial)).body;
    expect(metadata).toMatchObject({
      kind: 'PartialObjectMetadataList',
      items: [{ kind: 'PartialObjectMetadata', metadata: { name: 'b' } }],
    });
    expect(metadata.items[0].data).toBeUndefined();
    const table = (
      await api.call('GET', `${home}/pods`, undefined, {
        accept: 'application/json;as=Table;g=meta.k8s.io;v=v1,application/json',
      })
    ).body;
    expect(table.columnDefinitions.map(({ name }: { name: string }) => name).slice(0, 5)).toEqual([
      'Name',
      'Ready',
      'Status',
      'Restarts',
      'Age',
    ]);
  });

  it('lists a namespace that does not exist as empty, and answers 404 for one object', async () => {
    expect((await api.call('GET', '/api/v1/namespaces/nope/pods')).body.items).toEqual([]);
    const { code, body } = await api.call('GET', `${home}/pods/nope`);
    expect(code).toBe(404);
    expect(body).toEqual({
      kind: 'Status',
      apiVersion: 'v1',
      metadata: {},
      status: 'Failure',
      message: 'pods "nope" not found',
      reason: 'NotFound',
      details: { name: 'nope', kind: 'pods' },
      code: 404,
    });
  });

  it('allows everything when asked', async () => {
    const spec = { resourceAttributes: { verb: 'get', resource: 'pods' } };
    const { code, body } = await api.call('POST', '/apis/authorization.k8s.io/v1/selfsubjectaccessreviews', { spec });
    expect([code, body.status.allowed]).toEqual([201, true]);
  });
});
