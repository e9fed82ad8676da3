import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { stringify } from 'yaml';
import { codeTable, type ErrorCode } from '../../src/error-codes.ts';
import { createNamespace, realKubeconfig } from '../support/real-cluster.ts';
import { createWorld, type World } from '../support/world.ts';
import { inProcess } from '../unit/cli/run.ts';

let world: World;
let namespace: Awaited<ReturnType<typeof createNamespace>>;

const podTemplate = (image: string, spec: object = {}) =>
  stringify({
    apiVersion: 'v1',
    kind: 'PodTemplate',
    template: {
      spec: {
        terminationGracePeriodSeconds: 1,
        securityContext: { runAsNonRoot: true, runAsUser: 1000, fsGroup: 1000, seccompProfile: { type: 'RuntimeDefault' } },
        containers: [
          {
            name: 'agent',
            image,
            imagePullPolicy: 'IfNotPresent',
            securityContext: { allowPrivilegeEscalation: false, capabilities: { drop: ['ALL'] } },
          },
        ],
        ...spec,
      },
    },
  });
const claim = { mode: 'managed_pvc', size: '16Mi' };
const profiles = {
  node: { workspace: claim, podTemplate: podTemplate('node:local') },
  'no-image': { workspace: claim, podTemplate: podTemplate('registry.invalid/team/absent:1') },
  'no-node': {
    workspace: claim,
    budgets: { schedule: 5 },
    podTemplate: podTemplate('node:local', { nodeSelector: { disk: 'none' } }),
  },
  'no-class': { workspace: { ...claim, storageClass: 'absent' }, podTemplate: podTemplate('node:local') },
};

beforeAll(async () => {
  namespace = await createNamespace('failures');
  world = await createWorld({
    kubeconfig: realKubeconfig(),
    namespace: namespace.name,
    image: 'node:local',
    config: { profiles },
  });
  await world.worker();
});
afterAll(async () => {
  await world?.stop();
  await namespace?.remove();
});

const launch = (instanceId: string, more: object) =>
  world.operator.producer.launch({ version: 1, instanceId, profile: 'node', ...more });
const leftoversOf = async (id: string) =>
  (await world.leftovers()).filter((name) => name.includes(world.operator.inventory.hashOf(id)));
const eat = 'exec node -e "const all = []; for (;;) all.push(Buffer.alloc(1e7, 1))"';

/** Request, code, what the sentence must name, what the evidence must hold. */
const cases: [string, object, ErrorCode, RegExp, object][] = [
  [
    'an image that does not exist',
    { profile: 'no-image' },
    'image_pull_failed',
    /registry\.invalid\/team\/absent:1/,
    { containers: [{ waiting: { reason: expect.stringMatching(/ErrImagePull|ImagePullBackOff/) } }] },
  ],
  [
    'a nodeSelector that no node fits',
    { profile: 'no-node' },
    'launch_deadline',
    /scheduling took longer than 5 s: .*node affinity\/selector/,
    { phase: 'scheduling', events: expect.arrayContaining([expect.objectContaining({ reason: 'FailedScheduling' })]) },
  ],
  [
    'a claim of a class that does not exist',
    { profile: 'no-class' },
    'storage_failed',
    /storageclass\S* "absent" not found/,
    { claimEvents: expect.arrayContaining([expect.objectContaining({ reason: 'ProvisioningFailed' })]) },
  ],
  [
    'a prepare step that fails',
    { prepare: 'echo "npm ERR! no such script"; exit 9' },
    'prepare_failed',
    /exit code 9/,
    { exitCode: 9, log: expect.stringContaining('npm ERR! no such script') },
  ],
  [
    'a prepare step that needs more memory than it may have',
    { prepare: eat, resources: { limits: { memory: '128Mi' } } },
    'oom_killed',
    /more memory than its limit of 128Mi/,
    { memoryLimit: '128Mi', exitCode: 137 },
  ],
];

describe('a launch that cannot succeed says why, keeps the evidence and leaves nothing', () => {
  it.concurrent.each(cases)(
    '%s',
    async (id, more, code, sentence, evidence) => {
      await launch(id, more);
      const { failure } = (await world.until(id, (record) => record?.state === 'failed', 80)) ?? {};
      expect(failure).toMatchObject({
        code,
        retriable: false,
        attemptsLeft: 0,
        message: expect.stringMatching(sentence),
        evidence,
      });
      expect(failure?.hint).toBe(codeTable[code].hint);
      expect(await leftoversOf(id)).toEqual([]);
    },
    90_000,
  );

  it.concurrent('a Pod that somebody deletes half-way is told and made anew: the attempt is counted, nothing doubles', async () => {
    const id = 'deleted half-way';
    await launch(id, { prepare: 'test -e /workspace/twice || { touch /workspace/twice; exec sleep 300; }' });
    const preparing = await world.until(id, (record) => record?.stages.some(({ wait }) => wait === 'preparing') ?? false, 60);
    await world.cluster.remove('pods', preparing?.pod?.name ?? '', { uid: preparing?.pod?.uid ?? '', graceSeconds: 1 });
    const told = await world.until(id, (record) => record?.failure !== null && record?.failure !== undefined, 60);
    expect(told?.failure).toMatchObject({ code: 'pod_disrupted', retriable: true, attemptsLeft: 2, stage: 'bootstrap' });
    await world.operator.producer.teardown({ version: 1, instanceId: id });
    await world.gone(id);
    expect(await leftoversOf(id)).toEqual([]);
  }, 90_000);
});

describe('exec', () => {
  const run = (...args: string[]) => inProcess(['--config', world.loaded.file, 'exec', ...args]);

  it('C51 of a missing command says so, through the agent and through the cluster', async () => {
    await launch('exec', {});
    await world.ready('exec');
    for (const options of [[], ['-t']]) {
      const missing = await run(...options, 'exec', '--', 'no-such-command');
      const text = `${missing.stdout}${missing.stderr}`;
      expect([missing.exitCode, text]).toEqual([127, expect.stringMatching(/no-such-command"?: .*not found/)]);
    }
    await world.operator.producer.teardown({ version: 1, instanceId: 'exec' });
    await world.gone('exec');
  }, 90_000);
});
