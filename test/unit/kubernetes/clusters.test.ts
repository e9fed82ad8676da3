import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough } from 'node:stream';
import { afterAll, describe, expect, it } from 'vitest';
import { clusterSchema } from '../../../src/config/schema.ts';
import { checkClusterConfig, createClusters } from '../../../src/kubernetes/clusters.ts';
import { answer, quietLog, startStub, writeKubeconfig } from './stub-server.ts';

const dir = mkdtempSync(join(tmpdir(), 'windlass-clusters-'));
afterAll(() => rmSync(dir, { recursive: true }));
const config = (rest: object) =>
  clusterSchema.parse({ authMode: 'kubeconfig', kubeconfigPath: 'kubeconfig', namespace: 'n', ...rest });
const check = async (rest: object) =>
  (await checkClusterConfig('main', config(rest), dir)).map(({ path, message }) => [path, message]);

describe('checkClusterConfig', () => {
  it('is content with a file beside the configuration', async () => {
    writeKubeconfig(dir, 'https://127.0.0.1:6443', { token: 't' });
    expect(await check({})).toEqual([]);
    expect(await check({ context: 'main', kubeconfigPath: join(dir, 'kubeconfig') })).toEqual([]);
  });

  it('names the field and what is wrong with it', async () => {
    writeKubeconfig(dir, 'https://127.0.0.1:6443', {});
    expect(await check({ kubeconfigPath: 'missing' })).toEqual([
      ['clusters.main.kubeconfigPath', expect.stringContaining('ENOENT')],
    ]);
    expect(await check({ context: 'other' })).toEqual([['clusters.main.context', expect.stringContaining('it has main')]]);
    writeFileSync(join(dir, 'text'), 'hello');
    expect(await check({ kubeconfigPath: 'text' })).toEqual([
      ['clusters.main.context', expect.stringContaining('no current context')],
    ]);
    writeFileSync(join(dir, 'empty'), '');
    expect((await check({ kubeconfigPath: 'empty' }))[0]?.[0]).toBe('clusters.main.kubeconfigPath');
    writeKubeconfig(dir, 'ftp://x', {});
    expect(await check({})).toEqual([['clusters.main.kubeconfigPath', expect.stringContaining('no http(s) address')]]);
    writeKubeconfig(dir, 'https://x', { 'client-certificate': 'gone.pem' });
    expect(await check({})).toEqual([['clusters.main.kubeconfigPath', expect.stringContaining('gone.pem')]]);
  });

  it('shows nothing of the credentials in what it cannot read', async () => {
    writeFileSync(join(dir, 'broken'), 'users: [{name: u, user: {token: t0p-s3cret, oops\n');
    const [issue] = await checkClusterConfig('main', config({ kubeconfigPath: 'broken' }), dir);
    expect(issue?.path).toBe('clusters.main.kubeconfigPath');
    expect(issue?.message).not.toContain('t0p-s3cret');
  });

  it('knows that it is in no Pod', async () => {
    const outside = clusterSchema.parse({ authMode: 'in_cluster', namespace: 'n' });
    const [issue] = await checkClusterConfig('inside', outside, dir);
    expect(issue?.path).toBe('clusters.inside.authMode');
  });
});

describe('createClusters', () => {
  it('a log names the field of a connection that is not usable, as every other call does', async () => {
    const clusters = createClusters(
      { main: config({ kubeconfigPath: 'missing' }) },
      { installation: 'local', dir, log: quietLog },
    );
    const sink = new PassThrough();
    for (const call of [clusters.get('main').logs('windlass-x', sink), clusters.get('main').logTail('windlass-x')])
      await expect(call).rejects.toMatchObject({
        code: 'config_invalid',
        issues: [{ path: 'clusters.main.kubeconfigPath' }],
      });
    await clusters.close();
  });

  it('brings every field of a connection to the calls: file, context, namespace and time limit', async () => {
    const stub = await startStub({
      http: (request, response) => {
        if (request.url.pathname.endsWith('/pods/slow')) return;
        answer(response, 200, { metadata: { name: 'windlass-x', uid: 'u' } });
      },
    });
    const fields = {
      kubeconfigPath: join(stub.dir, 'kubeconfig'),
      context: 'main',
      namespace: 'theirs',
      requestTimeoutSeconds: 1,
    };
    const clusters = createClusters({ whole: config(fields) }, { installation: 'local', dir: '/nowhere', log: quietLog });
    const cluster = clusters.get('whole');
    expect(await cluster.read('pods', 'windlass-x')).toMatchObject({ metadata: { uid: 'u' } });
    expect(stub.received[0]).toMatchObject({
      url: expect.objectContaining({ pathname: '/api/v1/namespaces/theirs/pods/windlass-x' }),
      headers: expect.objectContaining({ authorization: 'Bearer secret-token' }),
    });
    await expect(cluster.read('pods', 'slow')).rejects.toMatchObject({ code: 'cluster_unreachable' });
    await clusters.close();
    await stub.close();
  });

  it('builds each cluster once, knows no other, and gives equal places equal hashes', async () => {
    const options = { installation: 'local', dir, log: quietLog };
    const clusters = createClusters(
      { a: config({}), b: config({ owners: ['x'], requestTimeoutSeconds: 5 }), c: config({ context: 'c' }) },
      options,
    );
    expect(clusters.names()).toEqual(['a', 'b', 'c']);
    expect(clusters.get('a')).toBe(clusters.get('a'));
    expect(clusters.get('a').configHash).toMatch(/^[0-9a-f]{64}$/);
    expect(clusters.get('b').configHash).toBe(clusters.get('a').configHash);
    expect(clusters.get('c').configHash).not.toBe(clusters.get('a').configHash);
    for (const name of ['other', 'constructor', '__proto__'])
      expect(() => clusters.get(name)).toThrow(expect.objectContaining({ code: 'config_invalid' }));
    await clusters.close();
  });
});
