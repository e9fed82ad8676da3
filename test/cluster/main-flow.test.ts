import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { mainFlow } from '../support/main-flow.ts';
import { createNamespace, realKubeconfig } from '../support/real-cluster.ts';
import { createWorld, type World } from '../support/world.ts';

describe.each(['standard', 'immediate'])('on a real Kubernetes, storage class %s', (storageClass) => {
  let world: World;
  let removeNamespace: () => Promise<void>;

  beforeAll(async () => {
    const namespace = await createNamespace('flow');
    removeNamespace = namespace.remove;
    world = await createWorld({ kubeconfig: realKubeconfig(), namespace: namespace.name, image: 'node:local', storageClass });
    await world.worker();
  });
  afterAll(async () => {
    await world?.stop();
    await removeNamespace?.();
  });

  it('launches, runs commands, keeps the workspace, relaunches on it and tears down without a trace', async () => {
    await mainFlow(world, `flow/${storageClass} %é`);
  }, 120_000);

  it('a namespace that does not exist is named, and nothing is created', async () => {
    const absent = await createWorld({ kubeconfig: realKubeconfig(), namespace: 'windlass-absent', image: 'node:local' });
    try {
      await absent.worker();
      await absent.operator.producer.launch({ version: 1, instanceId: 'absent', profile: 'node' });
      const record = await absent.until('absent', (current) => current?.state === 'failed');
      expect(record?.failure).toMatchObject({ code: 'namespace_not_found', retriable: false });
    } finally {
      await absent.stop();
    }
  });
});
