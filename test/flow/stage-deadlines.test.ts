import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { claimName, podName } from '../../src/names.ts';
import { type FaultyCluster, startFaultyCluster } from '../support/fault-plan.ts';
import { createWorld, type World } from '../support/world.ts';

/** Longer than any stage has here, and than a test waits: the call is still under way when its stage's time is up. */
const held = { delayMs: 600_000 };
const budgets = { storage: 3, total: 6, schedule: 3, bootstrap: 3, connect: 3 };
const nowhere = `apiVersion: v1
kind: PodTemplate
template:
  spec:
    nodeSelector: { disk: none }
    containers: [{ name: agent, image: node:24 }]
`;

let embedded: FaultyCluster;
let world: World;
beforeAll(async () => {
  embedded = await startFaultyCluster();
  const workspace = { mode: 'managed_pvc', size: '64Mi' };
  const profiles = {
    node: { podTemplateFile: 'profiles/node.yaml', workspace, budgets },
    nowhere: { podTemplate: nowhere, workspace, budgets },
  };
  const cluster = { authMode: 'kubeconfig', kubeconfigPath: embedded.kubeconfig, namespace: 'default', requestTimeoutSeconds: 8 };
  const config = { installation: 'deadlines', clusters: { default: cluster }, profiles, limits: { perOwner: 100 } };
  world = await createWorld({ kubeconfig: embedded.kubeconfig, namespace: 'default', image: 'node:24', config });
  await world.worker();
});
afterAll(async () => {
  await world?.stop();
  await embedded?.close();
});

interface Held {
  /** The call that never ends, or none. */
  readonly call?: { readonly verb: string; readonly resource: string; readonly subresource?: string };
  readonly profile?: string;
  readonly stage: string;
  readonly code: string;
}
const [late, unknown] = ['launch_deadline', 'cluster_unreachable'];
const call = (verb: string, resource: string, subresource?: string) => ({ verb, resource, ...(subresource && { subresource }) });
const steps: Readonly<Record<string, Held>> = {
  // A create is let go on until its own time is over: one that is given up may land all the same.
  'the create of the claim': { call: call('create', 'persistentvolumeclaims'), stage: 'workspace', code: unknown },
  'the create of the Pod': { call: call('create', 'pods'), stage: 'pod', code: unknown },
  'the wait for a node': { profile: 'nowhere', stage: 'pod', code: late },
  'the bootstrap': { call: call('*', 'pods', 'exec'), stage: 'bootstrap', code: late },
  'the handshake': { call: call('*', 'pods', 'portforward'), stage: 'connect', code: late },
};
const ids = Object.keys(steps);

/** All at a time: a create whose end is not known is waited for, a minute each. */
describe('C18 a launch whose stage is aborted in the middle of', () => {
  const rules = () =>
    ids.flatMap((id) => {
      const hash = world.operator.inventory.hashOf(id);
      const { call } = steps[id] as Held;
      const name = call?.resource === 'persistentvolumeclaims' ? claimName(hash) : podName(hash);
      return call === undefined ? [] : [{ ...call, name, fault: held }];
    });
  beforeAll(async () => {
    await embedded.withFaults(rules(), async () => {
      for (const id of ids)
        await world.operator.producer.launch({ version: 1, instanceId: id, profile: steps[id]?.profile ?? 'node' });
      await Promise.all(ids.map((id) => world.until(id, (record) => record?.state === 'failed', 150)));
    });
  }, 180_000);

  it.each(ids)('%s: its rollback, in its own time, removes all that was made', async (id) => {
    const record = await world.operator.inventory.read(id);
    expect(record).toMatchObject({
      pod: null,
      workspace: null,
      failure: { code: steps[id]?.code, stage: steps[id]?.stage },
    });
    const hash = world.operator.inventory.hashOf(id);
    expect((await world.leftovers()).filter((name) => name.includes(hash))).toEqual([]);
  });
});
