import { afterAll, beforeAll, expect, it } from 'vitest';
import { type DoctorReport, doctorFlow } from '../support/doctor-flow.ts';
import { createNamespace, realKubeconfig } from '../support/real-cluster.ts';
import { createWorld, type World } from '../support/world.ts';
import { inProcess } from '../unit/cli/run.ts';

let world: World;
let namespace: Awaited<ReturnType<typeof createNamespace>>;
const profile = (more: object) => ({ podTemplateFile: 'profiles/node.yaml', workspace: { mode: 'empty_dir' }, ...more });

beforeAll(async () => {
  namespace = await createNamespace('doctor');
  const profiles = {
    // Whether policies are enforced is the cluster's business: `custom` leaves it there.
    node: profile({ workspace: { mode: 'managed_pvc', size: '64Mi' }, egress: 'custom' }),
    scratch: profile({}),
    closed: profile({ egress: 'none' }),
  };
  world = await createWorld({
    kubeconfig: realKubeconfig(),
    namespace: namespace.name,
    image: 'node:local',
    config: { profiles },
  });
});
afterAll(async () => {
  await world?.stop();
  await namespace?.remove();
});

it('doctor finds nothing wrong, by dry runs only, then with a disposable instance that is gone at the end', async () => {
  await doctorFlow(world);
}, 120_000);

it('doctor --live says that instances reach the API server where egress is none and no policy keeps them from it', async () => {
  const ran = await inProcess(['--json', '--config', world.loaded.file, 'doctor', '--live', '--profile', 'closed']);
  const egress = (ran.json() as unknown as DoctorReport).checks.find(({ key }) => key === 'live.egress.default.closed');
  expect(egress).toMatchObject({
    success: false,
    error: { code: 'config_invalid', hint: expect.stringContaining('network-policies') },
  });
  expect(await world.leftovers()).toEqual([]);
}, 120_000);
