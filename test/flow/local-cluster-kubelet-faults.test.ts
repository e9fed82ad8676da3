import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { KubeObject } from '../../src/local-cluster/types.ts';
import { root } from '../support/root.ts';
import { condition, eventually, type Kubelet, startKubelet } from './kubelet-node.ts';

const forever = 'trap "exit 0" TERM; while :; do sleep 0.05; done';
const waitingFor = (pod: KubeObject): string | undefined => pod.status?.containerStatuses?.[0]?.state.waiting?.reason;

let node: Kubelet;
beforeAll(async () => {
  const folder = mkdtempSync(join(tmpdir(), 'windlass-image-'));
  mkdirSync(join(folder, 'bin'));
  writeFileSync(join(folder, 'bin/greet'), '#!/bin/sh\necho "hello $1"\n', { mode: 0o755 });
  node = await startKubelet('auto', { greeter: folder });
});
afterAll(() => node.close());

describe('what keeps a Pod from starting', () => {
  it.each([
    [
      'no-node',
      { spec: { nodeSelector: { disk: 'ssd' } } },
      /^0\/1 nodes are available: 1 node\(s\) didn't match Pod's node affinity\/selector\./,
    ],
    ['no-room', { container: { resources: { requests: { cpu: '9000' } } } }, /1 Insufficient cpu/],
    [
      'no-claim',
      { spec: { volumes: [{ name: 'v', persistentVolumeClaim: { claimName: 'none' } }] } },
      /persistentvolumeclaim "none" not found/,
    ],
  ] as const)(
    '%s: unschedulable, in the words of the scheduler',
    async (name, { spec = {}, container = {} }: { spec?: object; container?: object }, message) => {
      node.run(name, forever, { ...container }, { ...spec });
      const pod = await node.until(name, (one) => condition(one, 'PodScheduled') === 'False');
      expect(pod.status.conditions[0]).toMatchObject({ reason: 'Unschedulable', message: expect.stringMatching(message) });
      expect((await node.event(name, 'FailedScheduling')).message).toMatch(message);
      expect(pod.spec.nodeName).toBeUndefined();
    },
  );

  it('schedules it once what it waited for is there', async () => {
    node.create('persistentvolumeclaims', 'PersistentVolumeClaim', 'none', {
      spec: { storageClassName: 'immediate', accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } } },
    });
    await node.until('no-claim', (one) => one.status?.phase === 'Running');
    node.store.update('nodes', undefined, 'local', (one) => {
      one.metadata.labels = { ...one.metadata.labels, disk: 'ssd' };
    });
    await node.until('no-node', (one) => one.status?.phase === 'Running');
  });

  it('leaves a claim of an unknown class pending, with an event', async () => {
    node.create('persistentvolumeclaims', 'PersistentVolumeClaim', 'odd', {
      spec: { storageClassName: 'nope' },
      status: { phase: 'Pending' },
    });
    expect((await node.event('odd', 'ProvisioningFailed')).message).toBe('storageclass.storage.k8s.io "nope" not found');
    expect(node.store.get('persistentvolumeclaims', 'default', 'odd')?.status.phase).toBe('Pending');
  });

  it.each([
    ['bad-name', { image: 'Bad Image' }, 'InvalidImageName'],
    ['never-there', { image: 'nothing:1', imagePullPolicy: 'Never' }, 'ErrImageNeverPull'],
    ['not-there', { image: 'nothing:1' }, 'ImagePullBackOff'],
    [
      'no-config',
      { env: [{ name: 'A', valueFrom: { configMapKeyRef: { name: 'late', key: 'a' } } }] },
      'CreateContainerConfigError',
    ],
    ['root', { securityContext: { runAsNonRoot: true } }, 'CreateContainerConfigError'],
  ])('%s: %j waits with %s', async (name, container, reason) => {
    node.run(name, forever, container);
    const pod = await node.until(name, (one) => waitingFor(one) === reason);
    expect(pod.status).toMatchObject({
      phase: 'Pending',
      containerStatuses: [{ ready: false, started: false, restartCount: 0 }],
    });
    await node.event(name, 'Failed');
  });

  it('mounts a missing ConfigMap as soon as it is there, and says meanwhile what is missing', async () => {
    const volumes = [{ name: 'v', configMap: { name: 'late' } }];
    node.run('late', `cat /v/a; ${forever}`, { volumeMounts: [{ name: 'v', mountPath: '/v' }] }, { volumes });
    const event = await node.event('late', 'FailedMount');
    expect(event.message).toBe('MountVolume.SetUp failed for volume "v" : configmap "late" not found');
    await node.until('late', (one) => waitingFor(one) === 'ContainerCreating');
    node.create('configmaps', 'ConfigMap', 'late', { data: { a: 'here' } });
    await node.until('late', (one) => one.status?.phase === 'Running');
    await node.until('no-config', (one) => one.status?.phase === 'Running');
  });

  it('says of a program that is not there why it cannot start', async () => {
    node.run('no-program', '', { command: ['/no/such'] }, { restartPolicy: 'Never' });
    const pod = await node.until('no-program', (one) => one.status?.phase === 'Failed');
    expect(pod.status.containerStatuses[0].state.terminated).toMatchObject({
      exitCode: 128,
      reason: 'StartError',
      message: expect.stringContaining('exec: "/no/such": stat /no/such: no such file or directory: unknown'),
    });
  });
});

describe('images', () => {
  it("come from the operator's own folders, over the system's tools", async () => {
    node.run(
      'greeter',
      '',
      { image: 'registry.example/greeter:1', command: ['sh', '-c', 'greet you; ls / > /dev/null'] },
      { restartPolicy: 'Never' },
    );
    await node.until('greeter', (one) => one.status?.phase === 'Succeeded');
    expect(await node.logs('greeter')).toBe('hello you\n');
  });

  it.each([
    ['fault.local/image-pull-backoff', 'ImagePullBackOff', /not found/],
    ['fault.local/pull-rate-limited', 'ErrImagePull', /toomanyrequests/],
    ['fault.local/invalid-image-name', 'InvalidImageName', /invalid reference format/],
    ['fault.local/create-config-error', 'CreateContainerConfigError', /not found/],
  ])('%s waits with %s', async (image, reason, message) => {
    const name = image.slice('fault.local/'.length);
    node.run(name, forever, { image });
    const pod = await node.until(name, (one) => waitingFor(one) === reason);
    expect(pod.status.containerStatuses[0].state.waiting.message).toMatch(message);
  });

  it.each([
    ['oom', 137, 'OOMKilled'],
    ['crash', 1, 'Error'],
    ['exit-42', 42, 'Error'],
  ])('fault.local/%s ends with %i %s', async (kind, exitCode, reason) => {
    node.run(kind, forever, { image: `fault.local/${kind}` }, { restartPolicy: 'Never' });
    const pod = await node.until(kind, (one) => one.status?.phase === 'Failed');
    expect(pod.status.containerStatuses[0].state.terminated).toMatchObject({ exitCode, reason });
  });

  it('fault.local/never-start and slow-pull keep a Pod in the phase they are named for', async () => {
    node.run('never-start', forever, { image: 'fault.local/never-start' });
    node.run('slow-pull', forever, { image: 'fault.local/slow-pull-600' });
    await node.event('never-start', 'Pulled');
    await node.event('slow-pull', 'Pulling');
    for (const name of ['never-start', 'slow-pull']) {
      const pod = await node.until(name, (one) => condition(one, 'PodReadyToStartContainers') === 'True');
      expect(waitingFor(pod)).toBe('ContainerCreating');
      node.remove(name, 5);
      await node.untilGone(name);
    }
  });

  it('fault.local/evicted fails the Pod, preempted deletes it', async () => {
    node.run('evicted', forever, { image: 'fault.local/evicted' });
    node.run('preempted', forever, { image: 'fault.local/preempted' });
    const pod = await node.until('evicted', (one) => one.status?.phase === 'Failed');
    expect(pod.status).toMatchObject({ reason: 'Evicted', message: expect.stringContaining('low on resource: memory') });
    expect(condition(pod, 'DisruptionTarget')).toBe('True');
    await node.event('preempted', 'Preempted');
    await node.untilGone('preempted');
  });

  it('fault.local/node-lost and stuck-terminating stay until they are deleted by force', async () => {
    node.run('node-lost', forever, { image: 'fault.local/node-lost' });
    node.run('stuck', forever, { image: 'fault.local/stuck-terminating' });
    const lost = await node.until('node-lost', (one) => one.metadata.deletionTimestamp !== undefined);
    expect(lost.status.reason).toBe('NodeLost');
    expect(condition(lost, 'Ready')).toBe('False');
    await expect(node.exec('node-lost', ['true'])).rejects.toMatchObject({ status: 500 });
    await node.until('stuck', (one) => one.status?.phase === 'Running');
    node.remove('stuck', 0);
    await node.until('stuck', (one) => one.status?.containerStatuses?.[0]?.state.terminated !== undefined);
    const folders = () => readdirSync(join(node.dataDir, 'pods'));
    for (const name of ['node-lost', 'stuck']) {
      const uid = node.ref(name).podUid;
      expect(folders()).toContain(uid);
      node.store.remove('pods', 'default', name);
      await eventually('the end of its files', () => (folders().includes(uid) ? undefined : true));
    }
  });
});

describe('what a container may use', () => {
  it('ends it as out of memory above its limit', async () => {
    const command = [
      'node',
      '-e',
      'const all = []; setInterval(() => { if (all.length < 40) all.push(Buffer.alloc(1e7, 1)); }, 20)',
    ];
    node.run('hungry', '', { image: 'node', command, resources: { limits: { memory: '100Mi' } } }, { restartPolicy: 'Never' });
    const pod = await node.until('hungry', (one) => one.status?.phase === 'Failed');
    expect(pod.status.containerStatuses[0].state.terminated).toMatchObject({ exitCode: 137, reason: 'OOMKilled' });
  });

  it('hands a signal to PID 1 on to the container, which may handle it', async () => {
    node.run('signalled', `trap 'echo got it; exit 9' TERM; while :; do sleep 0.05; done`, {}, { restartPolicy: 'Never' });
    await node.until('signalled', (one) => one.status?.phase === 'Running');
    const isSandboxed = node.node.mode.kind === 'sandbox';
    // Without a sandbox PID 1 is the machine's: there the process is found by name.
    if (isSandboxed) await node.exec('signalled', ['sh', '-c', 'kill -TERM 1']);
    else node.remove('signalled', 5);
    const pod = await node.until('signalled', (one) => one.status?.containerStatuses?.[0]?.state.terminated !== undefined);
    expect(pod.status.containerStatuses[0].state.terminated.exitCode).toBe(9);
  });

  it('holds the volumes of a Pod back while a fault attaches them late', async () => {
    const spec = { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Mi' } }, storageClassName: 'standard' };
    const annotations = { 'fault.local/attach-ms': '1500' };
    const metadata = { name: 'late-claim', namespace: 'default', annotations };
    node.store.create('persistentvolumeclaims', { apiVersion: 'v1', kind: 'PersistentVolumeClaim', metadata, spec });
    const started = performance.now();
    node.run('attached', forever, {}, { volumes: [{ name: 'v', persistentVolumeClaim: { claimName: 'late-claim' } }] });
    const scheduled = await node.until('attached', (one) => one.status?.containerStatuses !== undefined);
    expect(scheduled.status).toMatchObject({
      phase: 'Pending',
      containerStatuses: [{ state: { waiting: { reason: 'ContainerCreating' } } }],
    });
    expect(condition(scheduled, 'PodReadyToStartContainers')).toBe('False');
    await node.until('attached', (one) => one.status?.phase === 'Running');
    expect(performance.now() - started).toBeGreaterThan(1500);
  });

  it('warns of fields that are not acted on', async () => {
    node.run('fields', forever, {}, { volumes: [{ name: 'e', emptyDir: { sizeLimit: '1Gi' } }] });
    expect((await node.event('fields', 'FieldNotImplemented')).message).toContain('spec.volumes[0].emptyDir.sizeLimit');
  });
});

describe('a cluster that is killed', () => {
  it('leaves no process, and its files go at the next start', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'windlass-killed-'));
    const program = join(folder, 'cluster.mts');
    writeFileSync(
      program,
      `import { startKubelet } from ${JSON.stringify(join(root, 'test/flow/kubelet-node.ts'))};
       const node = await startKubelet('auto');
       node.run('p', 'echo $$ > /v/pid; ${'while :; do sleep 0.05; done'}', { volumeMounts: [{ name: 'v', mountPath: '/v' }] }, { volumes: [{ name: 'v', emptyDir: {} }] });
       await node.until('p', (pod) => pod.status?.phase === 'Running');
       console.log(node.dataDir);
       setInterval(() => {}, 1e6);`,
    );
    const cluster = spawn(process.execPath, ['--import', 'tsx', program], { cwd: root, stdio: ['ignore', 'pipe', 'inherit'] });
    const dataDir = await new Promise<string>((resolve) => cluster.stdout.once('data', (chunk) => resolve(String(chunk).trim())));
    const mentions = () =>
      readdirSync('/proc').filter((pid) => {
        if (!/^\d+$/.test(pid)) return false;
        try {
          const isZombie = /^State:\s+Z/m.test(readFileSync(`/proc/${pid}/status`, 'utf8'));
          return !isZombie && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes(dataDir);
        } catch {
          return false;
        }
      });
    expect(mentions().length).toBeGreaterThan(0);
    cluster.kill('SIGKILL');
    await eventually('the end of its processes', () => (mentions().length === 0 ? true : undefined), mentions);
    expect(existsSync(join(dataDir, 'pods'))).toBe(false);
    const next = await startKubelet('none');
    await next.close();
    expect(existsSync(dataDir)).toBe(false);
    rmSync(folder, { recursive: true });
  });
});
