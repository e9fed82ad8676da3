import { chmod, mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { inventoryTag } from '../../src/inventory/keys.ts';
import { createShelf } from '../../src/inventory/shelf.ts';
import { rememberTransport } from '../../src/jobs/agent-channel.ts';
import { agentctlFile } from '../support/agentctl/build.ts';
import { type EmbeddedCluster, startCluster } from '../support/cluster.ts';
import { flushAll } from '../support/recover-flow.ts';
import { resumeSteps } from '../support/resume-steps.ts';
import { createWorld, type World } from '../support/world.ts';

let dir: string;
let embedded: EmbeddedCluster;
let world: World;
let steps: ReturnType<typeof resumeSteps>;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'windlass-recover-'));
  await chmod(dir, 0o755);
  await writeFile(join(dir, 'agentctl'), await agentctlFile(), { mode: 0o755 });
  embedded = await startCluster({ sandbox: 'none' });
  const agent = { delivery: 'upload', binaries: { 'linux/amd64': join(dir, 'agentctl') }, protocol: 'agentctl' };
  const profile = { podTemplateFile: 'profiles/node.yaml', workspace: { mode: 'managed_pvc', size: '64Mi' }, agent };
  const config = { installation: 'recover-agentctl', profiles: { agentctl: profile } };
  world = await createWorld({ kubeconfig: embedded.kubeconfig, namespace: 'default', image: 'node:24', config });
  steps = resumeSteps(world);
  await world.worker();
});
afterAll(async () => {
  await world?.stop();
  await embedded?.close();
  await rm(dir, { recursive: true, force: true });
});

/** As left behind by Pods with another agent that port-forward did not reach. */
async function rememberExec(): Promise<void> {
  const { redis, installation } = world.loaded.config;
  const client = new Redis(world.redis.url);
  await rememberTransport(createShelf(client, inventoryTag(redis.prefix, installation)), 'default', '', 'exec');
  client.disconnect();
}

/** What an agentctl answers at the port of the instance to who has its token, and to who has none. */
async function answers(id: string): Promise<[number, number]> {
  const access = await world.operator.connectAgent(id);
  try {
    const ask = async (token: string) =>
      (await fetch(`${access.url}/anything`, { headers: { authorization: `Bearer ${token}` } })).status;
    return [await ask(access.token), await ask('0'.repeat(64))];
  } finally {
    await access.close();
  }
}

describe('C36: Redis flushed under an agentctl', () => {
  it('a recovery starts it anew for its token, in the same Pod and on the same claim; it is used and rebuilt as before', async () => {
    const before = await steps.launch('kept', { profile: 'agentctl', prepare: 'echo ready >> prepared' });
    await flushAll(world);
    await rememberExec();
    const report = await world.operator.recover({ dryRun: false });
    expect(report).toMatchObject({ recovered: 1, failed: 0, items: [{ state: 'ready', rule: 'running' }] });

    const record = await world.ready('kept');
    expect(record.pod?.uid).toBe(before.pod?.uid);
    expect(record.pod?.main?.id).not.toBe(before.pod?.main?.id);
    expect(record).toMatchObject({ recovered: true, restartCount: 1, workspace: before.workspace, agent: before.agent });
    expect(record.snapshot).toBe(before.snapshot);
    expect(await answers('kept')).toEqual([404, 401]);

    // Known by the nonce that was read from the Pod: a later restart is set up again with it.
    const target = { pod: record.pod?.name ?? '', container: 'agent' };
    const kill = 'read -r pid <"$WINDLASS_RUN_DIR/agent.pid" && kill -9 "$pid"';
    await world.cluster.exec(target, ['/bin/sh', '-c', kill]).catch(() => undefined);
    await world.until('kept', (current) => current?.restartCount === 2);
    const after = await steps.reconnected('kept');
    expect(after).toMatchObject({ agent: { state: 'healthy' }, rebuilds: 0, restartCount: 2 });
    expect(await answers('kept')).toEqual([404, 401]);
    const prepared = ['/bin/sh', '-c', 'cat "$WINDLASS_WORKSPACE/prepared"'];
    expect((await world.cluster.exec(target, prepared)).stdout).toBe('ready\n');

    await world.operator.producer.teardown({ version: 1, instanceId: 'kept' });
    await world.gone('kept');
    expect(await world.leftovers()).toEqual([]);
  });

  it('one whose prepare step still ran was never handed over: it is removed, nothing of it stays', async () => {
    await world.operator.producer.launch({ version: 1, instanceId: 'under way', profile: 'agentctl', prepare: 'sleep 600' });
    const preparing = await world.until(
      'under way',
      (record) => record?.stages.some((stage) => stage.wait === 'preparing') ?? false,
    );
    await flushAll(world);
    // The worker of the lost launch learns from its next renewal that it lost the lease.
    const items = async () => (await world.operator.recover({ dryRun: false })).items;
    await expect
      .poll(items, { timeout: 30_000 })
      .toMatchObject([{ outcome: 'recovered', rule: 'never_bootstrapped', state: 'removing' }]);
    await world.gone('under way');
    expect(preparing?.pod).not.toBeNull();
    expect(await world.leftovers()).toEqual([]);
  });
});
