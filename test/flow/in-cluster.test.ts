import { subscribe, unsubscribe } from 'node:diagnostics_channel';
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { KubeConfig } from '@kubernetes/client-node';
import { afterAll, beforeAll, describe, expect, it, vi } from 'vitest';
import { parse } from 'yaml';
import { clusterSchema } from '../../src/config/schema.ts';
import { createClusters } from '../../src/kubernetes/clusters.ts';
import type { Cluster, Clusters } from '../../src/kubernetes/port.ts';
import { createLogger } from '../../src/log.ts';
import { type EmbeddedCluster, startCluster } from '../support/cluster.ts';

const mount = '/var/run/secrets/kubernetes.io/serviceaccount';
let dir: string;
let embedded: EmbeddedCluster;
let clusters: Clusters;
let cluster: Cluster;
let token: string;

/** The status codes of the calls since the last look, in order, as the HTTP client saw them. */
const seen: number[] = [];
const note = (message: unknown) => seen.push((message as { response: { statusCode: number } }).response.statusCode);
const codes = () => seen.splice(0);

/** What a kubelet mounts into a Pod, in a folder of ours: the client library itself takes a prefix for the path. */
beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'windlass-in-cluster-'));
  embedded = await startCluster({ sandbox: 'none' });
  const kubeconfig = parse(await readFile(embedded.kubeconfig, 'utf8'));
  token = kubeconfig.users[0].user.token;
  const { port, hostname } = new URL(embedded.url);
  await mkdir(join(dir, mount), { recursive: true });
  const authority = kubeconfig.clusters[0].cluster['certificate-authority-data'];
  await writeFile(join(dir, mount, 'ca.crt'), Buffer.from(authority, 'base64'));
  subscribe('undici:request:headers', note);
  vi.stubEnv('KUBERNETES_SERVICE_HOST', hostname);
  vi.stubEnv('KUBERNETES_SERVICE_PORT', port);
  const load = KubeConfig.prototype.loadFromCluster;
  vi.spyOn(KubeConfig.prototype, 'loadFromCluster').mockImplementation(function (this: KubeConfig) {
    load.call(this, dir);
  });
});
afterAll(async () => {
  unsubscribe('undici:request:headers', note);
  vi.restoreAllMocks();
  vi.unstubAllEnvs();
  await clusters?.close();
  await embedded?.close();
  await rm(dir, { recursive: true, force: true });
});

/** As a kubelet does: never a half-written token. */
async function rotate(value: string): Promise<void> {
  const file = join(dir, mount, 'token');
  await writeFile(`${file}.new`, value);
  await rename(`${file}.new`, file);
}

describe('C67: in a Pod, with a token that rotates', () => {
  it('is refused with a token that is no longer taken, after one try more', async () => {
    await rotate('expired');
    const config = { inside: clusterSchema.parse({ authMode: 'in_cluster', namespace: 'default' }) };
    clusters = createClusters(config, { installation: 'local', dir, log: createLogger('fatal') });
    cluster = clusters.get('inside');
    await expect(cluster.read('pods', 'windlass-x')).rejects.toMatchObject({ code: 'permission_denied' });
    expect(codes()).toEqual([401, 401]);
  });

  it('a call that meets the rotation succeeds: the old token is refused, and the new one is read and used at once', async () => {
    await rotate(token);
    expect(await cluster.read('pods', 'windlass-x')).toBeUndefined();
    expect(codes()).toEqual([401, 404]);
    expect(await cluster.read('pods', 'windlass-x')).toBeUndefined();
    expect(codes()).toEqual([404]);
  });
});
