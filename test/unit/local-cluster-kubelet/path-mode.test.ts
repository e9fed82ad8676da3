import { expect, it } from 'vitest';
import type { HostSupervisor } from '../../../src/local-cluster/kubelet/host-supervisor.ts';
import type { PodPlace } from '../../../src/local-cluster/kubelet/isolation.ts';
import { createPathMode } from '../../../src/local-cluster/kubelet/path-mode.ts';

const host = { memoryRoot: '/nowhere' } as HostSupervisor;
const place = { memoryFolders: [] as readonly string[] } as PodPlace;
const addresses = async () => {
  const cluster = createPathMode(host, 'for the test');
  return [(await cluster.openPod(place)).podIP, (await cluster.openPod(place)).podIP];
};

it('two clusters on one machine, which share its loopback, give their Pods addresses of their own', async () => {
  const all = [...(await addresses()), ...(await addresses())];
  expect(new Set(all).size).toBe(4);
  for (const address of all) expect(address).toMatch(/^127\.(6[4-9]|[7-9]\d|1[01]\d|12[0-7])\.\d+\.\d+$/);
});
