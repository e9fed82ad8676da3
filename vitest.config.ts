import { availableParallelism } from 'node:os';
import { defineConfig } from 'vitest/config';
import { BaseSequencer, type TestSpecification } from 'vitest/node';

/** What takes longest, longest first: the run is as long as its last file, and a fresh clone has no times to sort by. */
const slowest = [
  'api-faults',
  'launch',
  'two-holders',
  'soak',
  'crash-share',
  'local-cluster-kubelet',
  'reconnect-interleavings',
  'flat-memory',
  'deliveries',
  'redis-failover',
  'throttled',
  'demo',
  'order',
  'drain',
  'crowd-kills',
  'order-in-stages',
  'crowd-kills',
  'crowd-restarts',
  'reconnect',
  'reconnect-failures',
  'cli',
  'redis-faults',
  'waiting',
  'sweeps',
  'recover',
].map((name) => `/${name}.test.ts`);

class SlowestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => {
      const at = slowest.findIndex((name) => moduleId.endsWith(name));
      return at < 0 ? slowest.length : at;
    };
    return (await super.sort(files)).sort((a, b) => rank(a) - rank(b));
  }
}

// Unit tests need nothing but Node; redis and flow suites start what they need themselves; cluster needs $KUBECONFIG.
const project = (name: string, include: string[], seconds: number) => ({
  test: {
    name,
    include,
    environment: 'node' as const,
    testTimeout: seconds * 1000,
    hookTimeout: Math.max(seconds, 30) * 1000,
    globalSetup: ['test/support/build-all.mjs'],
    // The conformance suite is in two projects: here it learns which Kubernetes it runs on.
    provide: { kubernetes: name === 'cluster' ? ('real' as const) : ('embedded' as const) },
  },
});

export default defineConfig({
  test: {
    sequence: { sequencer: SlowestFirst },
    // Most suites wait for processes more than they compute: with two at a time, two cores were idle for half of the run.
    maxWorkers: Math.max(4, availableParallelism()),
    projects: [
      project('unit', ['test/unit/**/*.test.ts'], 10),
      project('redis', ['test/redis/**/*.test.ts'], 30),
      project('flow', ['test/flow/**/*.test.ts', 'test/conformance/**/*.test.ts'], 90),
      project('cluster', ['test/cluster/**/*.test.ts', 'test/conformance/**/*.test.ts'], 240),
    ],
  },
});
