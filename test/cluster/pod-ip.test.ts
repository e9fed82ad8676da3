import { connect } from 'node:net';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import type { InstanceRecord } from '../../src/inventory/types.ts';
import { createNamespace, realKubeconfig } from '../support/real-cluster.ts';
import { recordEffects, resumeSteps } from '../support/resume-steps.ts';
import { createWorld, type World } from '../support/world.ts';

describe('handshake pod_ip on a real Kubernetes, whose Pods this machine can reach', () => {
  let world: World;
  let steps: ReturnType<typeof resumeSteps>;
  let record: InstanceRecord;
  let removeNamespace: () => Promise<void>;

  beforeAll(async () => {
    const namespace = await createNamespace('pod-ip');
    removeNamespace = namespace.remove;
    const profile = { podTemplateFile: 'profiles/node.yaml', workspace: { mode: 'empty_dir' } };
    const profiles = { address: { ...profile, handshake: 'pod_ip' }, loopback: profile };
    world = await createWorld({
      kubeconfig: realKubeconfig(),
      namespace: namespace.name,
      image: 'node:local',
      config: { profiles },
    });
    steps = resumeSteps(world);
    await world.worker();
  });
  afterAll(async () => {
    await world?.stop();
    await removeNamespace?.();
  });

  it("goes to the Pod's own address, with no forward and no exec but the bootstrap's, and is recorded", async () => {
    const effects = recordEffects();
    record = await steps.launch('by-address', { profile: 'address' });
    const told = await world.exec('by-address', ['/bin/sh', '-c', 'echo "$WINDLASS_AGENT_HOST"']);
    const names = effects.stop();
    expect(names).not.toContain('kube.forward');
    expect(names.filter((name) => name === 'kube.exec')).toHaveLength(1);
    expect(names).toContain('agent.dial');
    const pod = await world.cluster.read('pods', record.pod?.name ?? '');
    expect(record).toMatchObject({
      pod: { ip: pod?.status?.podIP },
      agent: { transport: 'pod_ip', port: 8765, state: 'healthy' },
    });
    expect(pod?.status?.podIP).not.toMatch(/^127\./);
    expect(told).toMatchObject({ exitCode: 0 });
  }, 120_000);

  it('answers nobody without its token there, and only there: other profiles stay on loopback', async () => {
    const path = `http://${record.pod?.ip}:8765/api/v1/instances/${record.agent?.id}`;
    expect((await fetch(path)).status).toBe(401);
    const closed = await steps.launch('on-loopback', { profile: 'loopback' });
    expect(closed.agent?.transport).toBe('port_forward');
    await expect(dial(closed.pod?.ip ?? '')).rejects.toMatchObject({ code: 'ECONNREFUSED' });
  }, 120_000);

  it('goes on at the same address after the container was started anew', async () => {
    await steps.killAgent('by-address');
    await steps.restarted('by-address');
    expect((await world.exec('by-address', ['echo', 'again'])).stdout).toBe('again\n');
    const after = await world.operator.inventory.read('by-address');
    expect(after).toMatchObject({ pod: { ip: record.pod?.ip }, agent: { transport: 'pod_ip' } });
  }, 120_000);
});

/** Resolves when somebody listens at the agent's port. */
function dial(host: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect({ host, port: 8765 }, () => {
      socket.destroy();
      resolve();
    });
    socket.once('error', reject);
  });
}
