import { randomBytes } from 'node:crypto';
import { request as httpRequest } from 'node:http';
import { PassThrough, Readable, Writable } from 'node:stream';
import { setTimeout as delay } from 'node:timers/promises';
import type { V1Pod } from '@kubernetes/client-node';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { clusterSchema } from '../../src/config/schema.ts';
import { WindlassError } from '../../src/errors.ts';
import { isAlreadyExists } from '../../src/kubernetes/api-error.ts';
import { createClusters } from '../../src/kubernetes/clusters.ts';
import { keys, sharedLabels } from '../../src/kubernetes/ownership.ts';
import type { Cluster, PodChange } from '../../src/kubernetes/port.ts';
import { createNamespace, realKubeconfig } from '../support/real-cluster.ts';

const kubeconfigPath = realKubeconfig();
const space = await createNamespace('adapter');
const namespace = space.name;
const installation = 'adapter';
const image = process.env.WINDLASS_TEST_IMAGE ?? 'node:local';

const quiet = { debug: () => {}, info: () => {}, warn: () => {} };
const connection = (ns: string) => clusterSchema.parse({ authMode: 'kubeconfig', kubeconfigPath, namespace: ns });
const clusters = createClusters(
  { main: connection(namespace), nowhere: connection(`${namespace}-missing`) },
  { installation, dir: '/', log: quiet },
);

function podOf(name: string, script: string, labels: Record<string, string> = {}): V1Pod {
  return {
    apiVersion: 'v1',
    kind: 'Pod',
    metadata: { name, namespace, labels: { ...sharedLabels(installation, 'workspace'), ...labels } },
    spec: {
      restartPolicy: 'Never',
      terminationGracePeriodSeconds: 1,
      automountServiceAccountToken: false,
      securityContext: { runAsNonRoot: true, runAsUser: 1000, seccompProfile: { type: 'RuntimeDefault' } },
      containers: [
        {
          name: 'agent',
          image,
          imagePullPolicy: 'Never',
          command: ['sh', '-c', script],
          securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
        },
      ],
    },
  };
}

async function until<T>(what: string, look: () => T | undefined | Promise<T | undefined>, ms = 60_000): Promise<T> {
  const end = performance.now() + ms;
  for (;;) {
    const value = await look();
    if (value !== undefined) return value;
    if (performance.now() > end) throw new Error(`${what} did not happen within ${ms} ms`);
    await delay(50);
  }
}

const isRunning = (pod: V1Pod | undefined) => (pod?.status?.containerStatuses?.[0]?.state?.running ? pod : undefined);

describe('the adapter on a real cluster', () => {
  let cluster: Cluster;
  let shell: V1Pod;

  beforeAll(async () => {
    cluster = clusters.get('main');
    await until('the service account', async () => {
      const made = await cluster.create('pods', podOf('windlass-shell', 'exec sleep 3600')).catch((error: unknown) => {
        if (error instanceof WindlassError && /serviceaccount/.test(error.message)) return undefined;
        throw error;
      });
      return made;
    });
    shell = await until('the shell Pod running', async () => isRunning(await cluster.read('pods', 'windlass-shell')));
  }, 90_000);

  afterAll(async () => {
    await space.remove();
    await clusters.close();
  }, 60_000);

  it('gives dates as Date, and the server clock', async () => {
    expect(shell.metadata?.creationTimestamp).toBeInstanceOf(Date);
    expect(shell.status?.containerStatuses?.[0]?.state?.running?.startedAt).toBeInstanceOf(Date);
    const version = await cluster.version();
    expect(version.gitVersion).toMatch(/^v1\./);
    expect(Math.abs(version.serverTime - Date.now())).toBeLessThan(5000);
    expect(Math.abs(cluster.clockSkewMs())).toBeLessThan(5000);
  });

  it('reads a missing object as undefined and refuses a second create', async () => {
    expect(await cluster.read('pods', 'windlass-absent')).toBeUndefined();
    const again = await cluster.create('pods', podOf('windlass-shell', 'true')).catch((error: unknown) => error);
    expect(isAlreadyExists(again)).toBe(true);
    expect(again).toMatchObject({ code: 'name_conflict' });
  });

  it('tells a missing namespace, an invalid Pod and a bad name apart', async () => {
    const pod = podOf('windlass-lost', 'true');
    const elsewhere = { ...pod, metadata: { ...pod.metadata, namespace: `${namespace}-missing` } };
    await expect(clusters.get('nowhere').create('pods', elsewhere)).rejects.toMatchObject({ code: 'namespace_not_found' });
    const [main] = pod.spec?.containers ?? [];
    const invalid = { ...pod, spec: { ...pod.spec, containers: [{ ...main, name: 'Not A Name' }] } };
    const privileged = { ...pod, spec: { containers: [{ name: 'agent', image }] } };
    await expect(cluster.create('pods', privileged)).rejects.toMatchObject({ code: 'policy_denied' });
    await expect(cluster.create('pods', invalid)).rejects.toMatchObject({ code: 'template_rejected' });
    for (const name of ['', '.', '..', 'a/b', 'A', '../secrets'])
      await expect(cluster.remove('pods', name, { uid: 'x' })).rejects.toMatchObject({ code: 'invariant_broken' });
  });

  it('dry-runs a create without leaving anything', async () => {
    const made = await cluster.create('pods', podOf('windlass-dry', 'true'), { dryRun: true });
    expect(made.metadata?.uid).toBeTruthy();
    expect(await cluster.read('pods', 'windlass-dry')).toBeUndefined();
  });

  it('patches by merge and deletes only what the preconditions name', async () => {
    const name = 'windlass-map';
    const map = await cluster.create('configmaps', {
      metadata: { name, namespace, labels: sharedLabels(installation, 'agent') },
      data: { a: '1' },
    });
    const uid = map.metadata?.uid ?? '';
    const patched = await cluster.patch('configmaps', name, { metadata: { labels: { [keys.retained]: 'true' } } });
    expect(patched.metadata?.labels?.[keys.retained]).toBe('true');
    expect(await cluster.remove('configmaps', name, { uid: '00000000-0000-0000-0000-000000000000' })).toBe('gone');
    const stale = { uid, resourceVersion: map.metadata?.resourceVersion ?? '' };
    await expect(cluster.remove('configmaps', name, stale)).rejects.toMatchObject({ code: 'conflict' });
    expect(await cluster.read('configmaps', name)).toBeDefined();
    expect(await cluster.remove('configmaps', name, { uid })).toBe('gone');
    expect(await cluster.remove('configmaps', name, { uid })).toBe('gone');
  });

  it('pages metadata of more objects than one page holds', async () => {
    const labels = { ...sharedLabels(installation, 'agent'), 'test/paging': 'yes' };
    const names = Array.from({ length: 520 }, (_, index) => `windlass-page-${index}`);
    for (let at = 0; at < names.length; at += 26) {
      const part = names.slice(at, at + 26);
      await Promise.all(part.map((name) => cluster.create('configmaps', { metadata: { name, namespace, labels } })));
    }
    const seen = new Set<string>();
    let pages = 0;
    for await (const page of cluster.listMetadata('configmaps', 'test/paging=yes')) {
      pages += 1;
      expect(Math.abs(page.serverTime - Date.now())).toBeLessThan(5000);
      for (const item of page.items) {
        seen.add(item.name ?? '');
        expect(item.creationTimestamp).toBeInstanceOf(Date);
      }
    }
    expect(pages).toBe(2);
    expect([...seen].sort()).toEqual([...names].sort());
  }, 60_000);

  it('answers what it may do', async () => {
    expect(await cluster.can({ verb: 'create', resource: 'pods', subresource: 'exec' })).toMatchObject({ allowed: true });
  });

  describe('exec', () => {
    const target = { pod: 'windlass-shell', container: 'agent' };

    it('returns output and exit code', async () => {
      const result = await cluster.exec(target, ['sh', '-c', 'echo out; echo err >&2; exit 7']);
      expect(result).toEqual({ exitCode: 7, stdout: 'out\n', stderr: 'err\n' });
    });

    it('tells a missing program as a shell does', async () => {
      const result = await cluster.exec(target, ['no-such-program']);
      expect(result.exitCode).toBe(127);
      expect(result.stderr).toContain('no-such-program');
    });

    it('carries 10 MB through stdin and back unchanged', async () => {
      const data = randomBytes(10 << 20);
      const parts: Buffer[] = [];
      const stdout = new Writable({
        highWaterMark: 64 * 1024,
        write(chunk: Buffer, _encoding, done) {
          parts.push(chunk);
          setImmediate(done);
        },
      });
      const result = await cluster.exec(target, ['cat'], {
        stdin: Readable.from([data], { objectMode: false }),
        stdout,
        timeoutMs: 60_000,
      });
      expect(result.exitCode).toBe(0);
      await until('the last write', () => (stdout.writableLength === 0 ? true : undefined));
      expect(Buffer.concat(parts).equals(data)).toBe(true);
    }, 60_000);

    it('keeps the tail of captured output', async () => {
      const { stdout } = await cluster.exec(target, ['sh', '-c', 'head -c 200000 /dev/zero | tr "\\0" a; echo end']);
      expect(stdout.length).toBe(64 * 1024);
      expect(stdout.endsWith('aend\n')).toBe(true);
    });

    it('ends in time when the command does not, with stdin left open by the caller', async () => {
      const stdin = new PassThrough();
      stdin.write('x');
      await expect(cluster.exec(target, ['sleep', '30'], { stdin, timeoutMs: 1500 })).rejects.toMatchObject({
        code: 'exec_lost',
      });
      expect(stdin.listenerCount('data')).toBe(0);
      const controller = new AbortController();
      const call = cluster.exec(target, ['sleep', '30'], { signal: controller.signal });
      controller.abort(new WindlassError('superseded'));
      await expect(call).rejects.toMatchObject({ code: 'superseded' });
    });

    it('classifies a Pod that is not there', async () => {
      await expect(cluster.exec({ pod: 'windlass-absent', container: 'agent' }, ['true'])).rejects.toMatchObject({
        code: 'pod_disrupted',
      });
    });
  });

  it('forwards connections side by side, and refuses when nobody listens', async () => {
    const script = `require('http').createServer((q,s)=>{let n=0;q.on('data',c=>n+=c.length);q.on('end',()=>s.end(q.url+':'+n))}).listen(8765,'127.0.0.1')`;
    const started = cluster.exec({ pod: 'windlass-shell', container: 'agent' }, [
      'sh',
      '-c',
      `node -e "${script}" >/dev/null 2>&1 &`,
    ]);
    expect((await started).exitCode).toBe(0);
    const forward = await cluster.forward('windlass-shell', 8765);
    const post = (path: string, body: string) =>
      new Promise<string>((resolve, reject) => {
        const call = httpRequest({ host: '127.0.0.1', port: forward.port, path, method: 'POST', agent: false }, (response) => {
          let text = '';
          response.on('data', (chunk) => {
            text += chunk;
          });
          response.on('end', () => resolve(text));
        });
        call.on('error', reject);
        call.end(body);
      });
    await until('the server in the Pod', () => post('/first', 'x').catch(() => undefined));
    const answers = await Promise.all(Array.from({ length: 20 }, (_, index) => post(`/${index}`, 'y'.repeat(200_000))));
    expect(answers).toEqual(Array.from({ length: 20 }, (_, index) => `/${index}:200000`));
    await forward.close();
    await expect(post('/closed', 'x')).rejects.toMatchObject({ code: 'ECONNREFUSED' });

    const deaf = await cluster.forward('windlass-shell', 9);
    const refused = await fetchCode(deaf.port);
    expect(refused).toMatch(/ECONNRESET|socket hang up/);
    await deaf.close();
  }, 60_000);

  it('streams logs, follows them until aborted, and reads a tail', async () => {
    await cluster.create('pods', podOf('windlass-logs', 'for i in 1 2 3; do echo line $i; done; sleep 3600'));
    await until('the log Pod', async () => isRunning(await cluster.read('pods', 'windlass-logs')));
    const tail = await until('three lines', async () => {
      const text = await cluster.logTail('windlass-logs');
      return text.includes('line 3') ? text : undefined;
    });
    expect(tail).toBe('line 1\nline 2\nline 3\n');
    expect(await cluster.logTail('windlass-absent')).toBe('');
    const controller = new AbortController();
    let text = '';
    const sink = new Writable({
      write(chunk: Buffer, _encoding, done) {
        text += chunk;
        if (text.includes('line 3')) controller.abort();
        done();
      },
    });
    await cluster.logs('windlass-logs', sink, { follow: true, signal: controller.signal });
    expect(text).toContain('line 3');
    await expect(cluster.logs('windlass-absent', sink)).rejects.toMatchObject({ code: 'pod_disrupted' });
  }, 60_000);

  it('sees Pods of this installation come, change and go, with their events', async () => {
    await cluster.pods.ready(AbortSignal.timeout(10_000));
    expect(cluster.pods.get('windlass-shell')?.metadata?.uid).toBe(shell.metadata?.uid);
    const changes: PodChange[] = [];
    const off = cluster.pods.onChange((change) => changes.push(change));
    const foreign = podOf('windlass-foreign', 'sleep 3600');
    await cluster.create('pods', { ...foreign, metadata: { name: 'windlass-foreign', namespace } });
    const seen = await cluster.create('pods', podOf('windlass-seen', 'exec sleep 3600'));
    const uid = seen.metadata?.uid ?? '';
    await until('running in the cache', () => isRunning(cluster.pods.get('windlass-seen')));
    const events = await until('an event', () => cluster.pods.eventsOf(uid).find((event) => event.reason === 'Started'));
    expect(events.involvedObject.uid).toBe(uid);
    expect((await cluster.events(uid)).map((event) => event.reason)).toContain('Started');
    expect(await cluster.remove('pods', 'windlass-seen', { uid, graceSeconds: 1 })).toBe('deleting');
    await until('gone from the cache', () => (cluster.pods.get('windlass-seen') === undefined ? true : undefined));
    expect(changes.at(-1)).toEqual({ name: 'windlass-seen', pod: undefined });
    expect(cluster.pods.get('windlass-foreign')).toBeUndefined();
    expect(changes.some((change) => change.name === 'windlass-foreign')).toBe(false);
    off();
  }, 60_000);
});

/** How a plain HTTP client fails on a port. */
function fetchCode(port: number): Promise<string> {
  return new Promise((resolve) => {
    const call = httpRequest({ host: '127.0.0.1', port }, () => resolve('answered'));
    call.on('error', (error: NodeJS.ErrnoException) => resolve(error.code ?? error.message));
    call.end();
  });
}
