import { defineConfig } from 'vitest/config';

// Unit tests need nothing but Node; redis and flow suites start what they need themselves; cluster needs $KUBECONFIG.
const project = (name: string, include: string[], seconds: number) => ({
  test: {
    name,
    include,
    environment: 'node' as const,
    testTimeout: seconds * 1000,
    hookTimeout: Math.max(seconds, 30) * 1000,
  },
});

export default defineConfig({
  test: {
    globalSetup: ['test/support/global-setup.mjs'],
    projects: [
      project('unit', ['test/unit/**/*.test.ts'], 10),
      project('redis', ['test/redis/**/*.test.ts'], 30),
      project('flow', ['test/flow/**/*.test.ts', 'test/conformance/**/*.test.ts'], 90),
      project('cluster', ['test/cluster/**/*.test.ts'], 240),
    ],
  },
});
