import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { podName } from '../../src/names.ts';
import { type FaultyCluster, startFaultyCluster } from '../support/fault-plan.ts';
import { createWorld, type World } from '../support/world.ts';

/** Longer than any stage has here, and than a test waits: the call is still under way when its stage's time is up. */
const held = { delayMs: 600_000 };
// Of those that are not held, each ends well within its time, also where many other tests run.
const budgets = { schedule: 3, bootstrap: 10, connect: 10 };
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
  const config = { installation: 'deadlines', profiles };
  world = await createWorld({ kubeconfig: embedded.kubeconfig, namespace: 'default', image: 'node:24', config });
  await world.worker();
});
afterAll(async () => {
  await world?.stop();
  await embedded?.close();
});

interface Held {
  /** Of the call to its Pod that never ends, or none. */
  readonly subresource?: string;
  readonly profile?: string;
  readonly stage: string;
}
const steps: Readonly<Record<string, Held>> = {
  'the wait for a node': { profile: 'nowhere', stage: 'pod' },
  'the bootstrap': { subresource: 'exec', stage: 'bootstrap' },
  'the handshake': { subresource: 'portforward', stage: 'connect' },
};
const ids = Object.keys(steps);

/** Creates are not aborted, since they may land all the same: api-faults.test.ts has those that are not answered in time. */
describe('C18 a launch whose stage is aborted in the middle of', () => {
  const rules = () =>
    ids.flatMap((id) => {
      const hash = world.operator.inventory.hashOf(id);
      const { subresource } = steps[id] as Held;
      return subresource === undefined ? [] : [{ resource: 'pods', subresource, name: podName(hash), fault: held }];
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
      failure: { code: 'launch_deadline', stage: steps[id]?.stage },
    });
    const hash = world.operator.inventory.hashOf(id);
    expect((await world.leftovers()).filter((name) => name.includes(hash))).toEqual([]);
  });
});
