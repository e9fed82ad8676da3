import { afterAll, describe, expect, it } from 'vitest';
import type { KubeObject } from '../../src/local-cluster/types.ts';
import { openTarget, podOf } from './target.ts';

const target = await openTarget();
const main = (pod: KubeObject) => pod.status.containerStatuses?.[0] ?? {};
const condition = (pod: KubeObject, type: string) =>
  pod.status.conditions?.find((one: { type: string }) => one.type === type) ?? {};
const make = (name: string, script: string, spec = {}, container = {}) =>
  target.create('pods', podOf(target, name, script, spec, container));
const waiting = (name: string, reason: string) =>
  target.until(`pods/${name}`, (pod) => main(pod).state?.waiting?.reason === reason);
afterAll(() => target.close());

describe('a Pod that runs', () => {
  it('is Pending, then Running and Ready, with its address, its node and its container', async () => {
    const made = await make('runs', 'exec sleep 1000', { restartPolicy: 'Always' });
    expect(made.status).toMatchObject({ phase: 'Pending', qosClass: 'BestEffort' });
    const pod = await target.until('pods/runs', (one) => condition(one, 'Ready').status === 'True');
    expect(pod.status.phase).toBe('Running');
    for (const type of ['PodReadyToStartContainers', 'Initialized', 'Ready', 'ContainersReady', 'PodScheduled']) {
      expect(condition(pod, type).status).toBe('True');
    }
    expect(pod.status.podIP).toMatch(/^\d+\.\d+\.\d+\.\d+$/);
    expect(pod.status.startTime).toMatch(/Z$/);
    expect(main(pod)).toMatchObject({ name: 'main', ready: true, started: true, restartCount: 0 });
    expect(main(pod).state.running.startedAt).toMatch(/Z$/);
    expect(main(pod).containerID).toMatch(/^containerd:\/\/[0-9a-f]{64}$/);
  });

  it('to its end has Succeeded or Failed, with the exit code', async () => {
    await make('succeeds', 'exit 0');
    await make('fails', 'exit 7');
    const good = await target.until('pods/succeeds', ({ status }) => status.phase === 'Succeeded');
    expect(main(good).state.terminated).toMatchObject({ exitCode: 0, reason: 'Completed' });
    expect(condition(good, 'Ready')).toMatchObject({ status: 'False', reason: 'PodCompleted' });
    const bad = await target.until('pods/fails', ({ status }) => status.phase === 'Failed');
    expect(main(bad).state.terminated).toMatchObject({ exitCode: 7, reason: 'Error' });
    expect(condition(bad, 'Ready')).toMatchObject({ status: 'False', reason: 'PodFailed' });
  });

  it('first through its init containers', async () => {
    const init = (name: string, script: string) => ({ name, image: target.image, command: ['sh', '-c', script] });
    const volumes = [{ name: 'shared', emptyDir: {} }];
    const volumeMounts = [{ name: 'shared', mountPath: '/shared' }];
    const initContainers = [{ ...init('one', 'echo one > /shared/file'), volumeMounts }];
    await make('inits', 'cat /shared/file; exec sleep 1000', { initContainers, volumes }, { volumeMounts });
    const pod = await target.until('pods/inits', ({ status }) => status.phase === 'Running');
    expect(pod.status.initContainerStatuses[0].state.terminated).toMatchObject({ exitCode: 0, reason: 'Completed' });
    expect((await target.cluster.exec({ pod: 'inits', container: 'main' }, ['cat', '/shared/file'])).stdout).toBe('one\n');
    await make('lost', 'true', { initContainers: [init('bad', 'exit 3')] });
    const lost = await target.until('pods/lost', ({ status }) => status.phase === 'Failed');
    expect(lost.status.initContainerStatuses[0].state.terminated.exitCode).toBe(3);
    expect(main(lost).state.waiting.reason).toBe('PodInitializing');
  });
});

describe('a Pod that does not run says why', () => {
  it('image that cannot be pulled: ErrImagePull, then ImagePullBackOff', async () => {
    const { metadata } = await make('no-image', 'true', {}, { image: 'windlass-no-such-image:1' });
    await waiting('no-image', 'ErrImagePull');
    const pod = await waiting('no-image', 'ImagePullBackOff');
    expect(pod.status.phase).toBe('Pending');
    expect(main(pod).state.waiting.message).toMatch(/^Back-off pulling image "windlass-no-such-image:1"/);
    const failed = await target.event(metadata.uid, 'Failed');
    expect(failed.type).toBe('Warning');
  });

  it('image name that cannot be: InvalidImageName', async () => {
    await make('bad-name', 'true', {}, { image: 'UPPER/CASE:x' });
    const pod = await waiting('bad-name', 'InvalidImageName');
    expect(main(pod).state.waiting.message).toMatch(
      /^Failed to apply default image tag "UPPER\/CASE:x": couldn't parse image name/,
    );
  });

  it('image that may not be pulled and is not there: ErrImageNeverPull', async () => {
    await make('never', 'true', {}, { image: 'windlass-no-such-image:1', imagePullPolicy: 'Never' });
    const pod = await waiting('never', 'ErrImageNeverPull');
    expect(main(pod).state.waiting.message).toBe(
      'Container image "windlass-no-such-image:1" is not present with pull policy of Never',
    );
  });

  it('environment from what is missing: CreateContainerConfigError, until it is there', async () => {
    const env = [{ name: 'A', valueFrom: { configMapKeyRef: { name: 'later', key: 'a' } } }];
    await make('config', 'exec sleep 1000', {}, { env });
    const pod = await waiting('config', 'CreateContainerConfigError');
    expect(main(pod).state.waiting.message).toBe('configmap "later" not found');
    const user = { securityContext: { runAsNonRoot: true } };
    await make('root', 'true', user);
    expect(main(await waiting('root', 'CreateContainerConfigError')).state.waiting.message).toMatch(
      /^container has runAsNonRoot and image will run as root/,
    );
    await target.create('configmaps', { metadata: { name: 'later' }, data: { a: 'b' } });
    await target.until('pods/config', ({ status }) => status.phase === 'Running');
  });

  it("program that is not there: the container ends with 128 and the runtime's words", async () => {
    await make('no-program', '', {}, { command: ['/no/such/program'] });
    const pod = await target.until('pods/no-program', ({ status }) => status.phase === 'Failed');
    expect(main(pod).state.terminated).toMatchObject({ exitCode: 128, reason: 'StartError' });
    expect(main(pod).state.terminated.message).toContain('/no/such/program');
  });

  it('program that keeps ending: CrashLoopBackOff, with the last end', async () => {
    await make('crash', 'exit 5', { restartPolicy: 'Always' });
    const pod = await waiting('crash', 'CrashLoopBackOff');
    expect(main(pod).restartCount).toBeGreaterThanOrEqual(1);
    expect(main(pod).lastState.terminated).toMatchObject({ exitCode: 5, reason: 'Error' });
    expect(main(pod).state.waiting.message).toMatch(/^back-off \d+s restarting failed container=main pod=crash_/);
    expect(pod.status.phase).toBe('Running');
  });

  it('more memory than its limit: OOMKilled and 137', async () => {
    // Without a sandbox there is no memory limit to run into: the image then acts it out.
    const greedy = 'x=$(head -c 200m /dev/zero | tr "\\0" a); sleep 1000';
    const container = target.sandboxed ? {} : { image: 'fault.local/oom' };
    await make('greedy', greedy, {}, { ...container, resources: { limits: { memory: '32Mi' } } });
    const pod = await target.until('pods/greedy', ({ status }) => status.phase === 'Failed');
    expect(main(pod).state.terminated).toMatchObject({ exitCode: 137, reason: 'OOMKilled' });
  });

  it("no node that fits: Unschedulable, in the scheduler's words", async () => {
    const { metadata } = await make('no-node', 'true', { nodeSelector: { no: 'node' } });
    const pod = await target.until('pods/no-node', (one) => condition(one, 'PodScheduled').status === 'False');
    expect(condition(pod, 'PodScheduled')).toMatchObject({ reason: 'Unschedulable' });
    expect(condition(pod, 'PodScheduled').message).toMatch(
      /^0\/1 nodes are available: 1 node\(s\) didn't match Pod's node affinity\/selector\./,
    );
    expect(pod.spec.nodeName).toBeUndefined();
    expect((await target.event(metadata.uid, 'FailedScheduling')).message).toBe(condition(pod, 'PodScheduled').message);
    await make('large', 'true', {}, { resources: { requests: { cpu: '4000' } } });
    const large = await target.until('pods/large', (one) => condition(one, 'PodScheduled').status === 'False');
    expect(condition(large, 'PodScheduled').message).toMatch(/^0\/1 nodes are available: 1 Insufficient cpu\./);
  });

  it('claim that is missing: Unschedulable', async () => {
    const volumes = [{ name: 'v', persistentVolumeClaim: { claimName: 'missing' } }];
    await make('no-claim', 'true', { volumes });
    const pod = await target.until('pods/no-claim', (one) => condition(one, 'PodScheduled').status === 'False');
    expect(condition(pod, 'PodScheduled').message).toMatch(
      /^0\/1 nodes are available: persistentvolumeclaim "missing" not found\./,
    );
  });

  it('ConfigMap to mount that is missing: FailedMount, until it is there', async () => {
    const volumes = [{ name: 'v', configMap: { name: 'to-mount' } }];
    const volumeMounts = [{ name: 'v', mountPath: '/config' }];
    const { metadata } = await make('mounts', 'cat /config/key; exec sleep 1000', { volumes }, { volumeMounts });
    expect((await target.event(metadata.uid, 'FailedMount')).message).toBe(
      'MountVolume.SetUp failed for volume "v" : configmap "to-mount" not found',
    );
    const pod = await target.until('pods/mounts', () => true);
    expect(main(pod).state.waiting.reason).toBe('ContainerCreating');
    await target.create('configmaps', { metadata: { name: 'to-mount' }, data: { key: 'value' } });
    await target.until('pods/mounts', ({ status }) => status.phase === 'Running', 150);
  });

  it('over its deadline: Failed with DeadlineExceeded', async () => {
    await make('late', 'exec sleep 1000', { activeDeadlineSeconds: 1 });
    const pod = await target.until('pods/late', ({ status }) => status.phase === 'Failed');
    expect(pod.status).toMatchObject({ reason: 'DeadlineExceeded' });
  });
});
