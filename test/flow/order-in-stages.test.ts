import { randomBytes } from 'node:crypto';
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, it } from 'vitest';
import { podName } from '../../src/names.ts';
import { standby, type Victim } from '../support/chaos/victim.ts';
import { type EmbeddedCluster, startCluster } from '../support/cluster.ts';
import { createWorld, type World } from '../support/world.ts';

let embedded: EmbeddedCluster;
let world: World;
let victim: Victim;

beforeAll(async () => {
  embedded = await startCluster();
});
afterAll(async () => embedded?.close());
beforeEach(async () => {
  const config = { installation: `stages-${randomBytes(4).toString('hex')}` };
  world = await createWorld({ kubeconfig: embedded.kubeconfig, namespace: 'default', image: 'node:24', config });
  victim = await standby(world.loaded, 'launch,teardown');
  await victim.start();
});
afterEach(async () => {
  await victim?.end();
  await world?.stop();
});

const request = (id: string, which: string) => ({ version: 1, instanceId: id, profile: 'node', env: { WHICH: which } });

/** Where a launch is in each of its stages. */
const points = {
  workspace: 'before kube.create.persistentvolumeclaims#1',
  pod: 'before kube.create.pods#1',
  bootstrap: 'before kube.exec#1',
  connect: 'before agent.handshake#1',
  ready: 'after agent.create#1',
};

/** Resolves when the worker stands still in this stage of a launch that is to come. */
async function stopIn<T>(stage: keyof typeof points, launch: () => Promise<T>): Promise<T> {
  await victim.at(points[stage], 'stop');
  const accepted = await launch();
  await victim.halted();
  if (stage !== 'ready') return accepted;
  // `connect` is saved, then done; the next writes begin `ready` and end it. The first may be sent before this is heard.
  const armed = victim.at('before redis.write#3', 'stop');
  victim.process.kill('SIGCONT');
  await armed;
  await victim.halted();
  return accepted;
}

describe('a launch that is in stage', () => {
  it.each(Object.keys(points) as (keyof typeof points)[])(
    'C14 %s keeps another request for its name out; a teardown lets it in, and nothing of the first is left in the second',
    async (stage) => {
      const id = `asked again in ${stage}`;
      const { producer, inventory } = world.operator;
      const first = await stopIn(stage, () => producer.launch(request(id, 'first')));
      const found = await inventory.read(id);
      expect(found).toMatchObject({ state: 'launching', generation: first.generation });
      // `ready` may be about to begin.
      const now = found?.stages.find(({ state }) => state !== 'done')?.name ?? 'ready';
      expect(now).toBe(stage);
      await expect(producer.launch(request(id, 'second'))).rejects.toMatchObject({ code: 'instance_conflict' });
      expect(await producer.launch(request(id, 'first'))).toMatchObject({ jobId: first.jobId, deduplicated: true });
      expect(await inventory.read(id)).toMatchObject({ generation: first.generation, run: 1, request: found?.request });
      await producer.teardown({ version: 1, instanceId: id });
      const second = await producer.launch(request(id, 'second'));
      victim.process.kill('SIGCONT');
      const own = await world.until(id, (record) => record?.state === 'ready' && record.generation === second.generation);
      expect(own?.attemptsLeft).toBe(3);
      expect((await world.exec(id, ['/bin/sh', '-c', 'echo $WHICH'])).stdout).toBe('second\n');
      const pod = await world.cluster.read('pods', podName(own?.hash ?? ''));
      expect(pod?.metadata?.uid).toBe(own?.pod?.uid);
      if (found?.pod) expect(own?.pod?.uid).not.toBe(found.pod.uid);
      if (found?.workspace) expect(own?.workspace?.claimUid).not.toBe(found.workspace.claimUid);
      expect((await world.leftovers()).filter((name) => name.includes(own?.hash ?? '')).length).toBe(2);
    },
    120_000,
  );
});
