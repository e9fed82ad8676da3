import { afterEach } from 'vitest';
import { createClusters } from '../../../src/kubernetes/clusters.ts';
import type { Cluster, Clusters } from '../../../src/kubernetes/port.ts';
import { quietLog, type StubHandlers, type StubServer, startStub } from './stub-server.ts';

/** A cluster of the product on a stub of the test's own, both closed after each test. */
export function useStubCluster() {
  let clusters: Clusters;
  const at = {
    stub: undefined as unknown as StubServer,
    async clusterOn(handlers: StubHandlers): Promise<Cluster> {
      at.stub = await startStub(handlers);
      clusters = createClusters({ main: at.stub.config() }, { installation: 'local', dir: at.stub.dir, log: quietLog });
      return clusters.get('main');
    },
  };
  afterEach(async () => {
    await clusters.close();
    await at.stub.close();
  });
  return at;
}

/** A message of a stream: its channel, then its bytes. */
export const frame = (channel: number, payload: Uint8Array | string): Buffer =>
  Buffer.concat([Buffer.from([channel]), Buffer.from(payload)]);
