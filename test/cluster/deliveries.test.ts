import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { loadAgentBundle } from '../../src/agent/delivery.ts';
import { agentctlFile } from '../support/agentctl/build.ts';
import { appSteps } from '../support/apps-flow.ts';
import { createNamespace, realKubeconfig } from '../support/real-cluster.ts';
import { recordEffects, resumeSteps } from '../support/resume-steps.ts';
import { createWorld, type World } from '../support/world.ts';

describe('on a real Kubernetes', () => {
  let dir: string;
  let world: World;
  let steps: ReturnType<typeof resumeSteps>;
  let removeNamespace: () => Promise<void>;

  beforeAll(async () => {
    dir = await mkdtemp(join(tmpdir(), 'windlass-deliveries-'));
    const [ours, agentctl] = [join(dir, 'agent.mjs'), join(dir, 'agentctl')];
    await writeFile(ours, loadAgentBundle().text);
    await writeFile(agentctl, await agentctlFile());
    const namespace = await createNamespace('deliveries');
    removeNamespace = namespace.remove;
    const profile = { podTemplateFile: 'profiles/node.yaml', workspace: { mode: 'empty_dir' } };
    const upload = (path: string) => ({ delivery: 'upload', binaries: { 'linux/amd64': path } });
    const profiles = {
      upload: { ...profile, agent: upload(ours) },
      exec: { ...profile, handshake: 'exec' },
      agentctl: { ...profile, agent: { ...upload(agentctl), protocol: 'agentctl' } },
    };
    const config = { profiles, apps: { job: { image: 'node:local', allow: ['command'] } } };
    world = await createWorld({ kubeconfig: realKubeconfig(), namespace: namespace.name, image: 'node:local', config });
    steps = resumeSteps(world);
    await world.worker();
  });
  afterAll(async () => {
    await world?.stop();
    await removeNamespace?.();
    await rm(dir, { recursive: true, force: true });
  });

  it('an uploaded agent serves, also after its container was started anew', async () => {
    await steps.launch('uploaded', { profile: 'upload', secretEnv: { SECRET: 'kept-value' } });
    expect((await world.exec('uploaded', ['/bin/sh', '-c', 'printf %s "$SECRET"'])).stdout).toBe('kept-value');
    await steps.killAgent('uploaded');
    await steps.restarted('uploaded');
    expect((await world.exec('uploaded', ['echo', 'again'])).stdout).toBe('again\n');
  }, 120_000);

  it('handshake exec needs no forward, carries output of megabytes whole, and leaves no relay behind', async () => {
    const effects = recordEffects();
    const record = await steps.launch('by-exec', { profile: 'exec' });
    const output = await world.exec('by-exec', ['/bin/sh', '-c', 'head -c 5000000 /dev/zero | tr "\\0" x']);
    expect(effects.stop()).not.toContain('kube.forward');
    expect(record.agent).toMatchObject({ transport: 'exec', state: 'healthy' });
    expect(output.stdout).toBe('x'.repeat(5_000_000));
    const target = { pod: record.pod?.name ?? '', container: 'agent' };
    const relays = 'for p in /proc/[0-9]*; do tr "\\0" " " <$p/cmdline 2>/dev/null; echo; done | grep -c "agent.mjs rela[y]"';
    const left = async () => (await world.cluster.exec(target, ['/bin/sh', '-c', relays])).stdout.trim();
    await expect.poll(left, { timeout: 15_000 }).toBe('0');
  }, 120_000);

  it('an agentctl is brought, set up and shaken hands with, and again after its container was started anew', async () => {
    const record = await steps.launch('agentctl', {
      profile: 'agentctl',
      secretEnv: { SECRET: "it's" },
      prepare: 'echo "$SECRET" >seen',
    });
    expect(record.agent).toMatchObject({ protocol: 'agentctl', transport: 'port_forward' });
    const target = { pod: record.pod?.name ?? '', container: 'agent' };
    expect((await world.cluster.exec(target, ['cat', '/workspace/seen'])).stdout).toBe("it's\n");
    await world.cluster
      .exec(target, ['/bin/sh', '-c', 'read -r pid </run/windlass/agent.pid && kill -TERM "$pid"'])
      .catch(() => undefined);
    await steps.restarted('agentctl');
    expect((await steps.reconnected('agentctl')).agent).toMatchObject({ protocol: 'agentctl', state: 'healthy' });
  }, 120_000);

  it('an app passes the restricted policy, ends, and keeps its exit code', async () => {
    const record = await appSteps(world).finished('ends', 'job', { command: ['sh', '-c', 'sleep 1; exit 7'] });
    expect(record).toMatchObject({ state: 'ready', exitCode: 7, failure: null });
  }, 120_000);
});
