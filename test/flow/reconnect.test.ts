import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { builtSweeps } from '../../src/jobs/catalog.ts';
import { type EmbeddedCluster, startCluster } from '../support/cluster.ts';
import { recordEffects, removePods, resumeSteps } from '../support/resume-steps.ts';
import { createWorld, type World } from '../support/world.ts';

let embedded: EmbeddedCluster;
beforeAll(async () => {
  embedded = await startCluster();
});
afterAll(async () => embedded?.close());

let count = 0;
let world: World;
let steps: ReturnType<typeof resumeSteps>;
const open = async () => {
  // No sweep runs meanwhile: what is noticed, the watch has noticed.
  const yearly = Object.fromEntries(builtSweeps.map((kind) => [kind, { cron: '0 0 1 1 *' }]));
  const config = { installation: `reconnect-${count++}`, sweeps: yearly };
  world = await createWorld({ kubeconfig: embedded.kubeconfig, namespace: 'default', image: 'node:24', config });
  steps = resumeSteps(world);
  return world.worker();
};
const close = async () => {
  await removePods(world);
  await world.stop();
};

describe('an instance whose Pod is lost', () => {
  beforeEach(async () => {
    await open();
  });
  afterEach(close);

  it('C50 is lost as soon as its Pod is deleted, told by the watch alone, by exactly one of two workers, with evidence', async () => {
    await world.worker();
    const record = await steps.launch('deleted');
    await steps.deletePod(record);
    const now = await steps.lost('deleted');
    expect(await world.operator.producer.lastSweeps()).toEqual([]);
    expect(now.pod?.uid).toBe(record.pod?.uid);
    expect(now.failure).toMatchObject({ code: 'pod_disrupted', stage: 'ready', attemptsLeft: 0 });
    // The other worker has seen it as well by the time that the next instance is through.
    await steps.launch('after');
    const seen = await steps.events('deleted', 'lost');
    expect(seen).toHaveLength(1);
    expect(seen[0]?.evidence).toMatchObject({ node: record.pod?.node });
  });

  it('is built again on its claim with its data when it is launched again, from the recorded recipe and secrets', async () => {
    const request = { secretEnv: { SECRET: 'kept-value' }, env: { PLAIN: 'plain' } };
    const record = await steps.launch('rebuilt', request);
    await world.exec('rebuilt', ['/bin/sh', '-c', 'echo data > file']);
    await steps.deletePod(record);
    await steps.lost('rebuilt');
    const accepted = await world.operator.producer.launch({ version: 1, instanceId: 'rebuilt', profile: 'node', ...request });
    expect(accepted).toMatchObject({ generation: record.generation, deduplicated: false });
    const after = await world.ready('rebuilt');
    expect(after.pod?.uid).not.toBe(record.pod?.uid);
    expect(after.workspace?.claimUid).toBe(record.workspace?.claimUid);
    expect(after).toMatchObject({ run: 2, rebuilds: 1, restartCount: 0, expiresAt: record.expiresAt, snapshot: record.snapshot });
    const output = await world.exec('rebuilt', ['/bin/sh', '-c', 'cat file; printf %s "$SECRET$PLAIN"']);
    expect(output).toMatchObject({ exitCode: 0, stdout: 'data\nkept-valueplain' });
    expect(await steps.events('rebuilt', 'reconnected')).toMatchObject([{ how: 'rebuilt', run: 2 }]);
    await world.operator.producer.teardown({ version: 1, instanceId: 'rebuilt' });
    await world.gone('rebuilt');
    expect(await world.leftovers()).toEqual([]);
  });

  it('is built again by a reconnect, which needs no secrets to be sent again', async () => {
    const record = await steps.launch('reconnected', { secretEnv: { SECRET: 'kept-value' } });
    await steps.deletePod(record);
    await steps.lost('reconnected');
    await world.operator.producer.reconnect('reconnected');
    expect((await world.ready('reconnected')).rebuilds).toBe(1);
    expect((await world.exec('reconnected', ['/bin/sh', '-c', 'printf %s "$SECRET"'])).stdout).toBe('kept-value');
  });

  it('is built again no more often than recovery.maxRebuilds says; then its claim stays, and can be kept for a new launch', async () => {
    let record = await steps.launch('often');
    await steps.deletePod(record);
    await steps.lost('often');
    await world.operator.producer.reconnect('often');
    record = await world.ready('often');
    await steps.deletePod(record);
    await steps.lost('often');
    await world.operator.producer.reconnect('often');
    const ended = await world.until('often', (current) => current?.state === 'lost' && current.failure?.code === 'unrecoverable');
    expect(ended?.failure).toMatchObject({ stage: 'pod', attemptsLeft: 0, evidence: { rebuilds: 1, maxRebuilds: 1 } });
    await expect.poll(() => world.leftovers()).toEqual([`persistentvolumeclaims/${record.workspace?.claimName}`]);
    await world.operator.producer.teardown({ version: 1, instanceId: 'often', keepWorkspace: true });
    await world.until('often', (current) => current?.state === 'suspended');
    expect((await steps.launch('often')).workspace?.claimUid).toBe(record.workspace?.claimUid);
  });

  it('is unrecoverable when its workspace was an empty_dir, and nothing is made for it', async () => {
    const record = await steps.launch('scratch', { profile: 'scratch' });
    await steps.deletePod(record);
    await steps.lost('scratch');
    await world.operator.producer.reconnect('scratch');
    const ended = await world.until(
      'scratch',
      (current) => current?.state === 'lost' && current.failure?.code === 'unrecoverable',
    );
    expect(ended?.failure?.message).toContain('empty_dir');
    await expect.poll(() => world.leftovers()).toEqual([]);
  });

  it('is unrecoverable when its claim is gone too: no empty workspace takes its place', async () => {
    const record = await steps.launch('claimless');
    await steps.deletePod(record, 1);
    await steps.lost('claimless');
    await world.cluster.remove('persistentvolumeclaims', record.workspace?.claimName ?? '', {
      uid: record.workspace?.claimUid ?? '',
    });
    await expect.poll(() => world.leftovers()).toEqual([]);
    await world.operator.producer.reconnect('claimless');
    const ended = await world.until(
      'claimless',
      (current) => current?.state === 'lost' && current.failure?.code === 'unrecoverable',
    );
    expect(ended?.workspace?.claimUid).toBe(record.workspace?.claimUid);
    expect(await world.leftovers()).toEqual([]);
  });
});

describe('a reconnect of a ready instance', () => {
  beforeEach(async () => {
    await open();
  });
  afterEach(close);

  it('finds the exact Pod as it was left: no exec, no create, the same token, no younger', async () => {
    const record = await steps.launch('whole');
    const secrets = await world.operator.inventory.secrets(record.hash);
    const effects = recordEffects();
    const after = await steps.reconnected('whole');
    const seen = effects.stop();
    expect(seen.filter((name) => /^kube\.(exec|create|delete|patch)|^agent\.handshake/.test(name))).toEqual([]);
    expect(after).toMatchObject({ run: 2, pod: record.pod, expiresAt: record.expiresAt, readyAt: record.readyAt, rebuilds: 0 });
    expect(await world.operator.inventory.secrets(record.hash)).toMatchObject({ agentToken: secrets.agentToken });
    expect(await steps.events('whole', 'reconnected')).toMatchObject([{ how: 'kept', run: 2 }]);
    expect(await steps.events('whole', 'lost')).toEqual([]);
    expect((await world.exec('whole', ['echo', 'hi'])).stdout).toBe('hi\n');
  });

  it('C51 a container that was restarted is noted without a run, and the next use sets its agent up again', async () => {
    const record = await steps.launch('restarted');
    await steps.killAgent('restarted');
    const noted = await steps.restarted('restarted');
    expect(noted).toMatchObject({ state: 'ready', run: 1, agent: { state: 'idle' }, pod: { uid: record.pod?.uid } });
    expect((await world.exec('restarted', ['echo', 'again'])).stdout).toBe('again\n');
    const used = await world.operator.inventory.read('restarted');
    expect(used).toMatchObject({ state: 'ready', agent: { state: 'healthy' } });
    expect(await steps.events('restarted', 'reconnected')).toMatchObject([{ how: 'restarted', run: 1 }]);
  });

  it('a restarted container is worked with again in the same Pod', async () => {
    const record = await steps.launch('again', { secretEnv: { SECRET: 'kept-value' } });
    await steps.killAgent('again');
    await steps.restarted('again');
    const after = await steps.reconnected('again');
    expect(after).toMatchObject({ restartCount: 1, rebuilds: 0, agent: { state: 'healthy' }, pod: { uid: record.pod?.uid } });
    expect(await steps.events('again', 'reconnected')).toMatchObject([{ how: 'restarted', run: 2 }]);
    expect((await world.exec('again', ['/bin/sh', '-c', 'printf %s "$SECRET"'])).stdout).toBe('kept-value');
  });

  it('a Pod without its start marker (node reboot) is bootstrapped again, with its secrets', async () => {
    const request = { secretEnv: { SECRET: 'kept-value' }, prepare: 'echo x >> prepared' };
    const record = await steps.launch('rebooted', request);
    await steps.killAgent('rebooted', true);
    await steps.restarted('rebooted');
    const after = await steps.reconnected('rebooted');
    expect(after).toMatchObject({ restartCount: 1, rebuilds: 0, agent: { state: 'healthy' }, pod: { uid: record.pod?.uid } });
    const output = await world.exec('rebooted', ['/bin/sh', '-c', 'printf %s "$SECRET"; cat prepared']);
    // Prepared once: the workspace remembers.
    expect(output.stdout).toBe('kept-valuex\n');
  });

  it('that meets a loss which the watch could not write yet rebuilds in the same run; whoever is first writes it, once', async () => {
    const record = await steps.launch('raced');
    // Held by somebody else while the Pod goes: neither the watch nor the run can write before the other may.
    const lease = await world.operator.inventory.tryLease(record.hash);
    await steps.deletePod(record);
    await world.operator.producer.reconnect('raced');
    await lease?.release();
    const after = await world.until('raced', (current) => current?.rebuilds === 1 && current.state === 'ready');
    expect(after?.pod?.uid).not.toBe(record.pod?.uid);
    expect(await steps.events('raced', 'lost')).toHaveLength(1);
  });
});
