import { afterAll, describe, expect, it } from 'vitest';
import type { KubeObject } from '../../src/local-cluster/types.ts';
import { isReady, openTarget, podOf } from './target.ts';

const target = await openTarget();
/** Of the Pod alone even where there is no sandbox: what an earlier run left on the machine would pass for it. */
const own = { volumes: [{ name: 'own', emptyDir: {} }] };
const volumeMounts = [{ name: 'own', mountPath: '/own' }];
const exists = (file: string, more: object = {}) => ({ exec: { command: ['test', '-e', file] }, periodSeconds: 1, ...more });
const main = (pod: KubeObject) => pod.status.containerStatuses?.[0] ?? {};
const touch = (pod: string, file: string) => target.cluster.exec({ pod, container: 'main' }, ['touch', file]);
afterAll(() => target.close());

describe('probes', () => {
  it('startup: the container counts as started once it passes', async () => {
    const startupProbe = exists('/own/prepared', { failureThreshold: 1000 });
    await target.create('pods', podOf(target, 'starts', 'exec sleep 1000', own, { startupProbe, volumeMounts }));
    const running = await target.until('pods/starts', (pod) => main(pod).state?.running);
    expect([main(running).started, main(running).ready]).toEqual([false, false]);
    await touch('starts', '/own/prepared');
    await target.until('pods/starts', (pod) => main(pod).started && isReady(pod));
  });

  it('readiness: follows the probe both ways, and restarts nothing', async () => {
    const readinessProbe = exists('/own/ready', { failureThreshold: 1 });
    const { metadata } = await target.create(
      'pods',
      podOf(target, 'ready', 'exec sleep 1000', own, { readinessProbe, volumeMounts }),
    );
    await target.until('pods/ready', (pod) => main(pod).state?.running);
    const unhealthy = await target.event(metadata.uid, 'Unhealthy');
    expect(unhealthy.message).toMatch(/^Readiness probe failed/);
    await touch('ready', '/own/ready');
    await target.until('pods/ready', isReady);
    await target.cluster.exec({ pod: 'ready', container: 'main' }, ['rm', '/own/ready']);
    const unready = await target.until('pods/ready', (pod) => !isReady(pod));
    expect(main(unready).restartCount).toBe(0);
    const condition = unready.status.conditions.find((one: { type: string }) => one.type === 'Ready');
    expect(condition).toMatchObject({ reason: 'ContainersNotReady', message: 'containers with unready status: [main]' });
  });

  it('liveness: restarts the container', async () => {
    const livenessProbe = exists('/own/alive', { failureThreshold: 1 });
    const script = 'touch /own/alive; exec sleep 1000';
    const body = podOf(
      target,
      'lives',
      script,
      { ...own, restartPolicy: 'Always' },
      { livenessProbe: { ...livenessProbe, initialDelaySeconds: 1 }, volumeMounts },
    );
    const { metadata } = await target.create('pods', body);
    await target.until('pods/lives', isReady);
    await target.cluster.exec({ pod: 'lives', container: 'main' }, ['rm', '/own/alive']);
    await target.until('pods/lives', (pod) => main(pod).restartCount > 0);
    expect((await target.event(metadata.uid, 'Killing')).message).toBe('Container main failed liveness probe, will be restarted');
  });
});
