import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { podName } from '../../src/names.ts';
import { type EmbeddedCluster, startCluster } from '../support/cluster.ts';
import { crashFlow, killPoints } from '../support/crash-flow.ts';
import { mainFlow } from '../support/main-flow.ts';
import { flushAll } from '../support/recover-flow.ts';
import { createWorld, type World } from '../support/world.ts';

let embedded: EmbeddedCluster;
beforeAll(async () => {
  embedded = await startCluster();
});
afterAll(async () => embedded?.close());

const open = () => createWorld({ kubeconfig: embedded.kubeconfig, namespace: 'default', image: 'node:24' });

describe('on the embedded cluster', () => {
  let world: World;
  beforeAll(async () => {
    world = await open();
    await world.worker();
  });
  afterAll(async () => world?.stop());

  it('launches, runs commands, keeps the workspace, relaunches on it and tears down without a trace', async () => {
    await mainFlow(world, 'flow / %é 😀');
  });

  it('an empty_dir workspace goes with its Pod, also when asked to be kept', async () => {
    await world.operator.producer.launch({ version: 1, instanceId: 'scratch', profile: 'scratch' });
    expect((await world.ready('scratch')).workspace).toMatchObject({ mode: 'empty_dir', created: false });
    await world.operator.producer.teardown({ version: 1, instanceId: 'scratch', keepWorkspace: true });
    await world.gone('scratch');
    expect(await world.leftovers()).toEqual([]);
  });

  it('a raw job with secrets in the clear is refused and scrubbed, also when it is tried again', async () => {
    const { launch } = await world.operator.producer.queues();
    const add = (id: string, extra: object) =>
      launch.add('launch', { version: 1, instanceId: id, profile: 'node', ...extra }, { jobId: id });
    const refused = async (id: string) => {
      await vi.waitFor(async () => expect(await launch.getJobState(id)).toBe('failed'), { timeout: 20_000, interval: 100 });
      return launch.getJob(id);
    };
    await add('raw-secret', { secretEnv: { TOP: 'hunter2' } });
    const scrubbed = await refused('raw-secret');
    expect(JSON.stringify(scrubbed?.data)).not.toContain('hunter2');
    await scrubbed?.retry();
    await refused('raw-secret');
    expect(await world.operator.inventory.read('raw-secret')).toBeUndefined();
    expect(await world.leftovers()).toEqual([]);
  });

  it('an existing claim is used, and stays when the instance goes', async () => {
    const claimName = 'shared-data';
    const spec = { accessModes: ['ReadWriteOnce'], resources: { requests: { storage: '1Gi' } }, storageClassName: 'immediate' };
    const claim = await world.cluster.create('persistentvolumeclaims', { metadata: { name: claimName }, spec });
    const profiles = { theirs: { podTemplateFile: 'profiles/node.yaml', workspace: { mode: 'existing_claim', claimName } } };
    const other = await createWorld({
      kubeconfig: embedded.kubeconfig,
      namespace: 'default',
      image: 'node:24',
      config: { installation: 'theirs', profiles },
    });
    try {
      await other.worker();
      await other.operator.producer.launch({ version: 1, instanceId: 'guest', profile: 'theirs' });
      const record = await other.ready('guest');
      expect(record.workspace).toMatchObject({ mode: 'existing_claim', claimUid: claim.metadata?.uid, created: false });
      await other.exec('guest', ['/bin/sh', '-c', 'echo theirs > file']);
      await flushAll(other);
      expect(await other.operator.recover({ dryRun: false })).toMatchObject({ recovered: 1, failed: 0 });
      expect((await other.operator.inventory.read('guest'))?.workspace).toEqual(record.workspace);
      await other.operator.producer.teardown({ version: 1, instanceId: 'guest' });
      await other.gone('guest');
      const kept = await other.cluster.read('persistentvolumeclaims', claimName);
      expect(kept?.metadata).toMatchObject({ uid: claim.metadata?.uid });
      expect(kept?.metadata?.deletionTimestamp).toBeUndefined();
    } finally {
      await other.stop();
    }
  });

  it('a prepare step runs before ready; one that fails is named with its exit code and output, and leaves nothing', async () => {
    const request = { version: 1, profile: 'node', prepare: 'echo made > prepared; echo "prepare says hi"' };
    await world.operator.producer.launch({ ...request, instanceId: 'prepared' });
    await world.ready('prepared');
    expect((await world.exec('prepared', ['cat', 'prepared'])).stdout).toBe('made\n');
    await world.operator.producer.teardown({ version: 1, instanceId: 'prepared' });
    await world.gone('prepared');

    await world.operator.producer.launch({ ...request, instanceId: 'unprepared', prepare: 'echo "it broke here"; exit 9' });
    const failed = await world.until('unprepared', (record) => record?.state === 'failed');
    expect(failed?.failure).toMatchObject({ code: 'prepare_failed', retriable: false, stage: 'bootstrap' });
    expect(failed?.failure?.message).toContain('9');
    expect(JSON.stringify(failed?.failure?.evidence)).toContain('it broke here');
    expect(await world.leftovers()).toEqual([]);
  });

  it('while a prepare step runs its launch sleeps: the job is started for changes of the Pod, not again and again', async () => {
    await world.operator.producer.launch({ version: 1, profile: 'scratch', instanceId: 'patient', prepare: 'sleep 2' });
    await world.ready('patient');
    const { hash, generation, run } = (await world.operator.inventory.read('patient'))!;
    const { launch } = await world.operator.producer.queues();
    const job = await launch.getJob(`launch-${hash}-${generation}-${run}`);
    // Storage, image, start and the probe may each wake it, one of them twice.
    expect(job?.attemptsStarted).toBeLessThan(10);
    const waits = (await world.operator.inventory.events('patient', 0, 500)).filter(({ type }) => type === 'waiting');
    expect(waits.map(({ reason }) => reason)).toContain('preparing');
    // What the embedded cluster does not implement holds nothing up and is no reason to wait.
    expect(JSON.stringify(waits)).not.toContain('not implemented');
    await world.operator.producer.teardown({ version: 1, instanceId: 'patient' });
    await world.gone('patient');
  });

  it('an image that does not exist fails for good with evidence, and leaves nothing', async () => {
    const bad = await createWorld({
      kubeconfig: embedded.kubeconfig,
      namespace: 'default',
      image: 'fault.local/invalid-image-name',
      config: { installation: 'bad' },
    });
    try {
      await bad.worker();
      await bad.operator.producer.launch({ version: 1, instanceId: 'bad', profile: 'node' });
      const failed = await bad.until('bad', (record) => record?.state === 'failed');
      expect(failed?.failure).toMatchObject({ code: 'image_invalid', retriable: false, stage: 'pod' });
      expect(await bad.leftovers()).toEqual([]);
    } finally {
      await bad.stop();
    }
  });

  it('50 launches at once are all ready, and 50 teardowns leave nothing', async () => {
    const ids = Array.from({ length: 50 }, (_, index) => `burst-${index}`);
    const { producer } = world.operator;
    // Three times each: the same request is one instance.
    await Promise.all(
      ids.flatMap((id) =>
        [1, 2, 3].map(() => producer.launch({ version: 1, instanceId: id, profile: 'node', owner: `owner-${id}` })),
      ),
    );
    const records = await Promise.all(ids.map((id) => world.ready(id, 85)));
    expect(new Set(records.map((record) => record.pod?.uid)).size).toBe(50);
    expect((await world.leftovers()).length).toBe(100);
    await Promise.all(ids.map((id) => producer.teardown({ version: 1, instanceId: id })));
    await Promise.all(ids.map((id) => world.gone(id, 85)));
    expect(await world.leftovers()).toEqual([]);
  }, 180_000);
});

describe('a worker killed on the embedded cluster', () => {
  let world: World;
  beforeAll(async () => {
    world = await open();
  });
  afterAll(async () => world?.stop());

  // Those before are one effect earlier: `npm run chaos` and the cluster suites have all of them.
  it.each(killPoints.filter((point) => point.startsWith('after')))(
    '%s: another worker finishes with the same Pod',
    async (point) => {
      await crashFlow(world, `crash ${point}`, point);
    },
  );
});

describe('a teardown during a launch', () => {
  let world: World;
  beforeAll(async () => {
    world = await open();
  });
  afterAll(async () => world?.stop());

  const reached = ['pvc_created', 'pvc_admitted', 'pod_created', 'pod_admitted', 'bootstrapped', 'connected'];
  it.each(['requested', ...reached])('that has got to %s ends gone, with nothing left', async (checkpoint) => {
    const id = `teardown at ${checkpoint}`;
    const worker = checkpoint === 'requested' ? undefined : await world.worker();
    await world.operator.producer.launch({ version: 1, instanceId: id, profile: 'node' });
    const launched = await world.until(id, (record) => {
      return (
        record?.state === checkpoint ||
        record?.state === 'ready' ||
        (record?.stages.some((stage) => stage.checkpoint === checkpoint) ?? false)
      );
    });
    await world.operator.producer.teardown({ version: 1, instanceId: id });
    const second = worker ?? (await world.worker());
    await world.gone(id);
    expect(await world.leftovers()).toEqual([]);
    expect(await world.cluster.read('pods', podName(launched?.hash ?? ''))).toBeUndefined();
    await second.close();
  });
});
