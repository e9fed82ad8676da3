import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { createNamespace, realKubeconfig } from '../support/real-cluster.ts';
import { resumeSteps } from '../support/resume-steps.ts';
import { createWorld, type World } from '../support/world.ts';

describe('on a real Kubernetes', () => {
  let world: World;
  let steps: ReturnType<typeof resumeSteps>;
  let removeNamespace: () => Promise<void>;

  beforeAll(async () => {
    const namespace = await createNamespace('reconnect');
    removeNamespace = namespace.remove;
    world = await createWorld({
      kubeconfig: realKubeconfig(),
      namespace: namespace.name,
      image: 'node:local',
      storageClass: 'standard',
    });
    steps = resumeSteps(world);
    await world.worker();
  });
  afterAll(async () => {
    await world?.stop();
    await removeNamespace?.();
  });

  it('C50 a deleted Pod is lost within a second, and rebuilt on its claim with its data and secrets', async () => {
    const record = await steps.launch('rebuilt', { secretEnv: { SECRET: 'kept-value' } });
    await world.exec('rebuilt', ['/bin/sh', '-c', 'echo data > file']);
    await steps.deletePod(record);
    const deletedAt = Date.now();
    await steps.lost('rebuilt');
    const seen = await steps.events('rebuilt', 'lost');
    expect(seen).toHaveLength(1);
    // The event's time is Redis', on this machine: 200 ms for the answer of the delete itself.
    expect(Date.parse(seen[0]?.at ?? '') - deletedAt).toBeLessThan(1200);
    expect(seen[0]).toMatchObject({ code: 'pod_disrupted', evidence: { node: record.pod?.node } });

    await world.operator.producer.reconnect('rebuilt');
    const after = await world.ready('rebuilt');
    expect(after).toMatchObject({ rebuilds: 1, workspace: { claimUid: record.workspace?.claimUid } });
    expect(after.pod?.uid).not.toBe(record.pod?.uid);
    const output = await world.exec('rebuilt', ['/bin/sh', '-c', 'cat file; printf %s "$SECRET"']);
    expect(output).toMatchObject({ exitCode: 0, stdout: 'data\nkept-value' });
  });

  it('C51 exec works again after the container was restarted, in the same Pod', async () => {
    const record = await steps.launch('restarted');
    await steps.killAgent('restarted');
    expect((await steps.restarted('restarted')).agent?.state).toBe('idle');
    expect((await world.exec('restarted', ['echo', 'again'])).stdout).toBe('again\n');
    const after = await steps.reconnected('restarted');
    expect(after).toMatchObject({ restartCount: 1, rebuilds: 0, agent: { state: 'healthy' }, pod: { uid: record.pod?.uid } });
    expect((await steps.events('restarted', 'reconnected')).map(({ how }) => how)).toEqual(['restarted', 'kept']);
  });

  it('a Pod without its start marker (node reboot) is bootstrapped again', async () => {
    const record = await steps.launch('rebooted', { secretEnv: { SECRET: 'kept-value' } });
    await steps.killAgent('rebooted', true);
    await steps.restarted('rebooted');
    const after = await steps.reconnected('rebooted');
    expect(after).toMatchObject({ rebuilds: 0, pod: { uid: record.pod?.uid } });
    expect((await world.exec('rebooted', ['/bin/sh', '-c', 'printf %s "$SECRET"'])).stdout).toBe('kept-value');
  });

  it('an empty_dir workspace whose Pod is lost is unrecoverable', async () => {
    const record = await steps.launch('scratch', { profile: 'scratch' });
    await steps.deletePod(record);
    await steps.lost('scratch');
    await world.operator.producer.reconnect('scratch');
    const ended = (code: string | undefined) => code === 'unrecoverable';
    await world.until('scratch', (current) => current?.state === 'lost' && ended(current.failure?.code));
  });
});
