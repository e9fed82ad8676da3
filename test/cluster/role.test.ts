import { mkdtemp, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { CoreV1Api, KubeConfig, RbacAuthorizationV1Api } from '@kubernetes/client-node';
import { afterAll, beforeAll, expect, it } from 'vitest';
import { parseAllDocuments } from 'yaml';
import { sha256 } from '../../src/names.ts';
import { mainFlow } from '../support/main-flow.ts';
import { createNamespace, realKubeconfig } from '../support/real-cluster.ts';
import { root } from '../support/root.ts';
import { createWorld, type World } from '../support/world.ts';

let dir: string;
let world: World;
let namespace: Awaited<ReturnType<typeof createNamespace>>;

beforeAll(async () => {
  dir = await mkdtemp(join(tmpdir(), 'windlass-role-'));
  namespace = await createNamespace('role');
  const kubeconfig = join(dir, 'kubeconfig');
  await writeFile(kubeconfig, await kubeconfigOfTheRole(namespace.name), { mode: 0o600 });
  world = await createWorld({ kubeconfig, namespace: namespace.name, image: 'node:local' });
  await world.worker();
});
afterAll(async () => {
  await world?.stop();
  await namespace?.remove();
  await rm(dir, { recursive: true, force: true });
});

it('the shipped Role is enough for launch, exec, keep, relaunch, teardown and a sweep, and opens no Secret', async () => {
  await mainFlow(world, 'role');
  const { jobId } = await world.operator.producer.sweep({ version: 1, kinds: ['all'] });
  const { reports } = await world.operator.producer.sweepReports(jobId, 30_000);
  const kinds = ['orphans', 'ghosts', 'expired', 'config-maps', 'stuck'];
  expect(reports.map(({ sweep, deleted, stopped }) => [sweep, deleted, stopped])).toEqual(
    kinds.map((kind) => [kind, 0, undefined]),
  );
  expect(await world.cluster.can({ verb: 'get', resource: 'secrets' })).toMatchObject({ allowed: false });
}, 180_000);

/** A kubeconfig for a service account with nothing but deploy/base/rbac.yaml, bound in this namespace. */
async function kubeconfigOfTheRole(name: string): Promise<string> {
  const admin = new KubeConfig();
  admin.loadFromFile(realKubeconfig());
  const role = parseAllDocuments(await readFile(join(root, 'deploy/base/rbac.yaml'), 'utf8'))
    .map((document) => document.toJS())
    .find((document) => document.kind === 'Role');
  for (const rule of role.rules) {
    if (rule.resourceNames) rule.resourceNames = [`windlass-epoch-${sha256('epoch test').slice(0, 20)}`];
  }
  const rbac = admin.makeApiClient(RbacAuthorizationV1Api);
  await admin
    .makeApiClient(CoreV1Api)
    .createNamespacedServiceAccount({ namespace: name, body: { metadata: { name: 'windlass' } } });
  await rbac.createNamespacedRole({ namespace: name, body: { metadata: { name: 'windlass' }, rules: role.rules } });
  await rbac.createNamespacedRoleBinding({
    namespace: name,
    body: {
      metadata: { name: 'windlass' },
      roleRef: { apiGroup: 'rbac.authorization.k8s.io', kind: 'Role', name: 'windlass' },
      subjects: [{ kind: 'ServiceAccount', name: 'windlass', namespace: name }],
    },
  });
  const { status } = await admin.makeApiClient(CoreV1Api).createNamespacedServiceAccountToken({
    namespace: name,
    name: 'windlass',
    body: { spec: { audiences: [], expirationSeconds: 3600 } },
  });
  const user = { name: 'windlass', token: status?.token ?? '' };
  const cluster = admin.getCurrentCluster();
  if (cluster === null) throw new Error('the kubeconfig has no current cluster');
  const own = new KubeConfig();
  own.loadFromOptions({
    clusters: [cluster],
    users: [user],
    contexts: [{ name: 'role', cluster: cluster.name, user: user.name }],
    currentContext: 'role',
  });
  return own.exportConfig();
}
