import { once } from 'node:events';
import { join } from 'node:path';
import { afterAll, afterEach, beforeAll, describe, expect, it } from 'vitest';
import { type EmbeddedCluster, startCluster } from '../support/cluster.ts';
import { type DoctorReport, doctorFlow, failedChecks } from '../support/doctor-flow.ts';
import { sweepReport } from '../support/recover-flow.ts';
import { atOnce } from '../support/sweeps-by-hand.ts';
import { built, createWorld, type World, type WorldOptions } from '../support/world.ts';
import { inProcess, start } from '../unit/cli/run.ts';

let embedded: EmbeddedCluster;
beforeAll(async () => {
  await built();
  embedded = await startCluster();
});
afterAll(async () => embedded?.close());

let count = 0;
let world: World;
const open = async (more: Partial<WorldOptions> = {}) => {
  const sweeps = Object.fromEntries(['orphans', 'ghosts', 'expired', 'config-maps', 'stuck'].map((kind) => [kind, atOnce]));
  const config = { installation: `doctor-${count++}`, sweeps };
  world = await createWorld({ kubeconfig: embedded.kubeconfig, namespace: 'default', image: 'node:24', config, ...more });
};
afterEach(async () => world?.stop());
const doctor = async (...args: string[]) => {
  const ran = await inProcess(['--json', '--config', world.loaded.file, 'doctor', ...args]);
  return { ...ran, report: ran.json() as unknown as DoctorReport };
};

describe('doctor', () => {
  it('finds nothing wrong, by dry runs only, then with a disposable instance that is gone at the end', async () => {
    await open();
    await doctorFlow(world);
  });

  it('--live says why its Pod does not run, and removes it all the same', async () => {
    await open({ image: 'fault.local/invalid-image-name' });
    const { report, exitCode } = await doctor('--live', '--profile', 'node');
    expect(failedChecks(report)).toMatchObject([{ key: 'live.pod.default.node', error: { code: 'image_invalid' } }]);
    expect(report.checks.at(-1)).toMatchObject({ key: 'live.removed.default.node', success: true });
    expect(report.checks.at(-1)?.detail).toMatch(/^persistentvolumeclaims\/windlass-\w+-workspace, pods\/windlass-\w+$/);
    expect(exitCode).toBe(1);
    expect(await world.leftovers()).toEqual([]);
  });

  it('--live tries nothing where something that it needs failed before', async () => {
    await open({ config: { installation: 'strange', profiles: { theirs: strangersClaim } } });
    const { report } = await doctor('--live');
    expect(failedChecks(report)).toMatchObject([
      { key: 'storage.default.theirs', error: { code: 'storage_failed', message: expect.stringContaining('does not exist') } },
    ]);
    expect(report.checks.filter(({ key }) => key.startsWith('live.'))).toEqual([]);
    const connection = report.checks.find(({ key }) => key === 'kubeconfig.default');
    expect(connection?.detail).toContain(embedded.kubeconfig);
  });

  it('killed with its instance running leaves what the orphans sweep knows and removes', async () => {
    await open();
    const preload = join(import.meta.dirname, '../support/kill-at.mjs');
    const env = { KILL_AT: 'after kube.exec', NODE_OPTIONS: `--import ${preload}` };
    const victim = start(['doctor', '--live', '--profile', 'node', '--json', '--config', world.loaded.file], { env });
    expect((await once(victim, 'exit'))[1]).toBe('SIGKILL');
    expect(await world.leftovers()).toHaveLength(2);
    await world.worker();
    expect(await sweepReport(world, 'orphans')).toMatchObject({ deleted: 0 });
    // Busy, until the lease of the dead one ends.
    const deleted = async () => (await sweepReport(world, 'orphans'))?.deleted;
    await expect.poll(deleted, { timeout: 30_000 }).toBe(2);
    await expect.poll(() => world.leftovers(), { timeout: 30_000 }).toEqual([]);
  });

  it('is let alone by sweeps while it lives, and removes what it made at Ctrl-C', async () => {
    await open({ image: 'fault.local/never-start' });
    const trial = start(['doctor', '--live', '--profile', 'node', '--json', '--config', world.loaded.file]);
    const ended = once(trial, 'exit');
    await expect.poll(() => world.leftovers(), { timeout: 30_000 }).toHaveLength(2);
    await world.worker();
    await sweepReport(world, 'orphans');
    const second = await sweepReport(world, 'orphans');
    expect(second).toMatchObject({ deleted: 0 });
    expect(second?.entries.map(({ action }) => action)).toEqual(['busy', 'busy']);
    trial.kill('SIGINT');
    expect((await ended)[0]).toBe(130);
    expect(await world.leftovers()).toEqual([]);
  });
});

const strangersClaim = { podTemplateFile: 'profiles/node.yaml', workspace: { mode: 'existing_claim', claimName: 'absent' } };
