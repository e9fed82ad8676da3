import { expect } from 'vitest';
import type { Check } from '../../src/cli/doctor.ts';
import { inProcess } from '../unit/cli/run.ts';
import { recordEffects } from './resume-steps.ts';
import type { World } from './world.ts';

export interface DoctorReport {
  readonly success: boolean;
  readonly checks: readonly Check[];
}
export const failedChecks = (report: DoctorReport) => report.checks.filter(({ success }) => !success);

/** Doctor on a healthy world, the same on every cluster: without and with `--live`. */
export async function doctorFlow(world: World): Promise<void> {
  const run = async (...args: string[]) => {
    const effects = recordEffects();
    const ran = await inProcess(['--json', '--config', world.loaded.file, 'doctor', ...args]);
    const report = ran.json() as unknown as DoctorReport;
    expect(failedChecks(report)).toEqual([]);
    expect([report.success, ran.exitCode]).toEqual([true, 0]);
    return { keys: report.checks.map(({ key }) => key), effects: effects.stop() };
  };
  const dry = await run();
  const order = [
    'config',
    'recipes',
    'redis',
    'redis.acl',
    'keys',
    'kubeconfig.default',
    'discovery.default',
    'namespace.default',
  ];
  expect(dry.keys.slice(0, order.length)).toEqual(order);
  expect(dry.keys).toEqual(
    expect.arrayContaining([
      'rbac.default.pods.create',
      'rbac.default.pods/portforward.create',
      'storage.default.node',
      'admission.claim.default.node',
      'admission.pod.default.node',
      'storage.default.scratch',
      'admission.pod.default.scratch',
    ]),
  );
  expect(dry.keys.filter((key) => key.startsWith('live.'))).toEqual([]);
  expect(dry.effects.filter((name) => /^kube\.(delete|exec|patch)/.test(name))).toEqual([]);
  expect(await world.leftovers()).toEqual([]);

  const live = await run('--live', '--profile', 'node', '--cluster', 'default');
  const steps = ['pod', 'exec', 'connect', 'egress', 'removed'].map((step) => `live.${step}.default.node`);
  expect(live.keys.slice(-steps.length)).toEqual(steps);
  expect(live.keys.filter((key) => key.endsWith('.scratch'))).toEqual([]);
  expect(live.effects).toEqual(expect.arrayContaining(['kube.delete.pods', 'kube.delete.persistentvolumeclaims']));
  expect(await world.leftovers()).toEqual([]);
}
