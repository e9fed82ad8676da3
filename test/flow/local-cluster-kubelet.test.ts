import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { KubeObject } from '../../src/local-cluster/types.ts';
import { condition, eventually, type Kubelet, startKubelet, text } from './kubelet-node.ts';

const forever = 'trap "exit 0" TERM; while :; do sleep 0.05; done';

describe.each(['auto', 'none'] as const)('a node with sandbox %s', (sandbox) => {
  let node: Kubelet;
  beforeAll(async () => {
    node = await startKubelet(sandbox);
  });
  afterAll(() => node.close());

  it('runs a container on config, memory, scratch and claim volumes, as the user of the Pod', async () => {
    node.create('configmaps', 'ConfigMap', 'settings', { data: { 'a.txt': 'one' } });
    node.create('persistentvolumeclaims', 'PersistentVolumeClaim', 'work', {
      spec: { storageClassName: 'standard', accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
      status: { phase: 'Pending' },
    });
    const volumes = [
      { name: 'c', configMap: { name: 'settings' } },
      { name: 'm', emptyDir: { medium: 'Memory' } },
      { name: 'e', emptyDir: {} },
      { name: 'w', persistentVolumeClaim: { claimName: 'work' } },
    ];
    const volumeMounts = [
      { name: 'c', mountPath: '/opt/settings', readOnly: true },
      { name: 'm', mountPath: '/run/secret' },
      { name: 'e', mountPath: '/scratch' },
      { name: 'w', mountPath: '/workspace' },
    ];
    const script = `cat /opt/settings/a.txt > /workspace/copy; echo s > /run/secret/s; echo e > /scratch/e; pwd; ${forever}`;
    node.run(
      'volumes',
      script,
      { volumeMounts, workingDir: '/workspace' },
      { volumes, securityContext: { runAsUser: 1000, fsGroup: 1000 } },
    );
    const pod = await node.until('volumes', (one) => condition(one, 'Ready') === 'True');
    expect(pod.spec.nodeName).toBe('local');
    const claim = node.store.get('persistentvolumeclaims', 'default', 'work');
    expect(claim).toMatchObject({ status: { phase: 'Bound' }, spec: { volumeName: `pvc-${claim?.metadata.uid}` } });
    const found = await eventually('the copy', async () => {
      const read = await node.exec('volumes', ['sh', '-c', 'cat /workspace/copy /run/secret/s /scratch/e']);
      return read.code === 0 ? read.out : undefined;
    });
    expect(found).toBe('ones\ne\n');
    if (node.node.mode.kind === 'sandbox') {
      expect((await node.exec('volumes', ['id', '-u'])).out).toBe('1000\n');
      expect((await node.exec('volumes', ['sh', '-c', 'touch /opt/settings/x'])).code).not.toBe(0);
      expect(await node.logs('volumes')).toBe('/workspace\n');
    }
  });

  it('shows a changed ConfigMap in the running container', async () => {
    node.store.update('configmaps', 'default', 'settings', (map) => {
      map.data['a.txt'] = 'two';
    });
    const seen = await eventually('the new content', async () => {
      const { out } = await node.exec('volumes', ['cat', '/opt/settings/a.txt']);
      return out === 'two' ? out : undefined;
    });
    expect(seen).toBe('two');
  });

  it('removes the claim with its folder', async () => {
    node.remove('volumes', 5);
    await node.untilGone('volumes');
    const claims = join(node.dataDir, 'claims');
    expect(readdirSync(claims)).toHaveLength(1);
    node.store.remove('persistentvolumeclaims', 'default', 'work');
    expect(readdirSync(claims)).toEqual([]);
    expect(node.store.list('persistentvolumes')).toEqual([]);
  });

  it('hands stdin to an exec and its exit code back, byte for byte', async () => {
    node.run('exec', forever);
    await node.until('exec', (one) => one.status?.phase === 'Running');
    const input = 'line\n'.repeat(200_000);
    const copied = await node.exec('exec', ['sh', '-c', 'cat; echo end >&2; exit 7'], input);
    expect(copied.code).toBe(7);
    expect(copied.out === input).toBe(true);
    expect(copied.err).toBe('end\n');
    await expect(node.exec('exec', ['no-such-program'])).rejects.toMatchObject({
      status: 500,
      message: expect.stringContaining('exec: "no-such-program": executable file not found in $PATH'),
    });
  });

  it('gives a process outputs that can be opened by name', async () => {
    const copied = await node.exec('exec', ['sh', '-c', 'cat > /dev/stdout; echo no > /dev/stderr'], 'yes');
    expect(copied).toEqual({ code: 0, out: 'yes', err: 'no\n' });
  });

  it('delivers all output to a slow reader, although the process has ended long before', async () => {
    const run = await node.node.exec(node.ref('exec'), ['sh', '-c', 'head -c 5000000 /dev/zero'], { stdin: false, tty: false });
    run.stderr?.resume();
    let length = 0;
    for await (const chunk of run.stdout) {
      if (length === 0) await new Promise((resolve) => setTimeout(resolve, 700));
      length += chunk.length;
    }
    expect(length).toBe(5_000_000);
    expect(await run.exit).toEqual({ exitCode: 0 });
  });

  it('ends an exec whose background child keeps its output open', async () => {
    const outcome = await node.exec('exec', ['sh', '-c', 'sleep 600 & echo started; exit 3']);
    expect(outcome).toEqual({ code: 3, out: 'started\n', err: '' });
  });

  it('gives an exec a terminal of the asked size', async () => {
    const run = await node.node.exec(node.ref('exec'), ['sh', '-c', 'echo go; read line; stty size; exit 5'], {
      stdin: true,
      tty: true,
    });
    const all = text(run.stdout);
    run.stdout.once('data', () => {
      run.resize(100, 40);
      // The terminal tells of its new size when it has it; the program asks after the next line only.
      setTimeout(() => run.stdin?.write('x\n'), 500);
    });
    expect(await all).toContain('40 100');
    expect(await run.exit).toEqual({ exitCode: 5 });
  });

  it('connects to a port of the Pod, and tells apart two Pods on the same port', async () => {
    const server = (word: string) =>
      `require('http').createServer((q, r) => r.end('${word}')).listen(8765, process.env.HOST); process.on('SIGTERM', () => process.exit(0))`;
    for (const word of ['first', 'second']) {
      const command = ['node', '-e', server(word)];
      node.run(word, '', { image: 'node:22', command, env: [{ name: 'HOST', value: '127.0.0.1' }] });
    }
    for (const word of ['first', 'second']) {
      await node.until(word, (one) => one.status?.phase === 'Running');
      const answer = await eventually('an answer', async () => {
        const stream = await node.node.dial(node.ref(word).podUid, 8765).catch(() => undefined);
        stream?.write('GET / HTTP/1.0\r\n\r\n');
        return stream && text(stream);
      });
      expect(answer.endsWith(`\r\n\r\n${word}`)).toBe(true);
    }
    await expect(node.node.dial(node.ref('first').podUid, 9)).rejects.toThrow('connection refused');
  });

  it('ends a process that handles SIGTERM at once, and one that does not at the end of its grace', async () => {
    node.run('polite', 'trap "echo bye; exit 3" TERM; while :; do sleep 0.05; done');
    node.run('deaf', 'sleep 600; true');
    for (const name of ['polite', 'deaf']) await node.until(name, (one) => one.status?.phase === 'Running');
    const started = performance.now();
    const log = node.logs('polite', { follow: true });
    node.remove('polite', 30);
    node.remove('deaf', 2);
    await node.untilGone('polite');
    expect(await log).toBe('bye\n');
    await node.untilGone('deaf');
    expect(performance.now() - started).toBeGreaterThan(1900);
    const { uid } = node.create('pods', 'Pod', 'spare', { spec: { nodeName: 'elsewhere', containers: [] } }).metadata;
    expect(existsSync(join(node.dataDir, 'pods', uid))).toBe(false);
    expect(readdirSync(join(node.dataDir, 'pods'))).not.toContain(node.ref('deaf').podUid || 'none');
  });

  it('starts again what failed, keeps the log before, and leaves no process of the start before', async () => {
    const script = 'sleep 0.3; (while :; do sleep 0.05; echo tick; done) & echo start; echo why > /dev/termination-log; exit 4';
    node.run('restart', script);
    const pod = await node.until(
      'restart',
      (one) => one.status?.containerStatuses?.[0]?.state.waiting?.reason === 'CrashLoopBackOff',
    );
    expect(pod.status).toMatchObject({
      phase: 'Running',
      containerStatuses: [
        {
          restartCount: 1,
          ready: false,
          started: false,
          lastState: { terminated: { exitCode: 4, reason: 'Error', message: 'why\n' } },
        },
      ],
    });
    expect(pod.status.containerStatuses[0].state.waiting.message).toMatch(
      /^back-off 10s restarting failed container=main pod=restart_default\(/,
    );
    expect(await node.logs('restart', { previous: true, tailLines: 1000 })).toMatch(/^start\n(tick\n)?$/);
    await node.event('restart', 'BackOff');
  });

  it('runs init containers in order, a sidecar beside, and finishes a Pod that is done', async () => {
    const volumes = [{ name: 'v', emptyDir: {} }];
    const volumeMounts = [{ name: 'v', mountPath: '/shared' }];
    const step = (name: string, command: string, rest = {}) => ({
      name,
      image: 'alpine',
      command: ['sh', '-c', command],
      volumeMounts,
      ...rest,
    });
    const initContainers = [
      step('one', 'echo 1 >> /shared/order'),
      step('side', `echo side >> /shared/order; ${forever}`, { restartPolicy: 'Always' }),
      step('two', 'while ! grep -q side /shared/order; do sleep 0.05; done; echo 2 >> /shared/order'),
    ];
    node.run('init', 'cat /shared/order', { volumeMounts }, { volumes, initContainers, restartPolicy: 'Never' });
    const pod = await node.until(
      'init',
      (one) => one.status?.phase === 'Succeeded' && condition(one, 'PodReadyToStartContainers') === 'False',
    );
    expect(await node.logs('init')).toBe('1\nside\n2\n');
    expect(pod.status.initContainerStatuses.map((one: { state: object }) => Object.keys(one.state)[0])).toEqual([
      'terminated',
      'terminated',
      'terminated',
    ]);
    expect(condition(pod, 'Initialized')).toBe('True');
  });

  it('is ready only after its startup and readiness probes, and restarts what fails its liveness probe', async () => {
    const probes = {
      startupProbe: { exec: { command: ['sh', '-c', 'test -f /state/started'] }, periodSeconds: 1, failureThreshold: 60 },
      readinessProbe: { exec: { command: ['sh', '-c', 'test -f /state/ready'] }, periodSeconds: 1 },
      livenessProbe: { exec: { command: ['sh', '-c', 'test ! -f /state/sick'] }, periodSeconds: 1, failureThreshold: 1 },
      volumeMounts: [{ name: 'v', mountPath: '/state' }],
    };
    node.run('probed', `rm -f /state/*; ${forever}`, probes, { volumes: [{ name: 'v', emptyDir: {} }] });
    const status = (one: KubeObject) => one.status?.containerStatuses?.[0];
    await node.event('probed', 'Unhealthy');
    expect(status(node.get('probed') as never)).toMatchObject({ started: false, ready: false });
    await node.exec('probed', ['touch', '/state/started']);
    await node.until('probed', (one) => status(one)?.started === true);
    expect(condition(node.get('probed') as never, 'Ready')).toBe('False');
    await node.exec('probed', ['touch', '/state/ready']);
    await node.until('probed', (one) => condition(one, 'Ready') === 'True');
    await node.exec('probed', ['touch', '/state/sick']);
    const again = await node.until('probed', (one) => status(one)?.restartCount === 1);
    expect(condition(again, 'Ready')).toBe('False');
    expect((await node.event('probed', 'Killing')).message).toBe('Container main failed liveness probe, will be restarted');
  });
});
