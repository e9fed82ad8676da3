import { generateKeyPairSync } from 'node:crypto';
import { cp, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse, parseAllDocuments, stringify } from 'yaml';
import { loadConfig } from '../../src/config/load.ts';
import { createRecipes } from '../../src/jobs/recipes.ts';
import { sha256 } from '../../src/names.ts';
import { offerOf } from '../../src/producers/offer.ts';
import { acceptLaunch } from '../../src/producers/validate.ts';
import { root } from '../support/root.ts';

const read = (file: string) => readFile(join(root, file), 'utf8');
// biome-ignore lint/suspicious/noExplicitAny: manifests of many kinds
const documents = async (file: string): Promise<any[]> => parseAllDocuments(await read(file)).map((document) => document.toJS());

describe('the manifests', () => {
  test('the Role grants what Windlass asks for, in the namespace of the instances, and nothing more', async () => {
    const role = (await documents('deploy/base/rbac.yaml')).find((document) => document.kind === 'Role');
    const all = ['get', 'list', 'watch', 'create', 'patch', 'delete'];
    expect(role.metadata.namespace).toBe('windlass-instances');
    expect(role.rules).toEqual([
      { apiGroups: [''], resources: ['pods', 'persistentvolumeclaims'], verbs: all },
      { apiGroups: [''], resources: ['pods/exec', 'pods/portforward'], verbs: ['get', 'create'] },
      { apiGroups: [''], resources: ['pods/log'], verbs: ['get'] },
      { apiGroups: [''], resources: ['configmaps'], verbs: ['get', 'list', 'create', 'delete'] },
      {
        apiGroups: [''],
        resources: ['configmaps'],
        resourceNames: [expect.stringMatching(/^windlass-epoch-/)],
        verbs: ['patch'],
      },
      { apiGroups: [''], resources: ['events', 'resourcequotas'], verbs: ['list', 'watch'] },
    ]);
  });

  test('the epoch that the Role lets us patch is that of the shipped installation', async () => {
    const role = (await documents('deploy/base/rbac.yaml')).find((document) => document.kind === 'Role');
    const { installation } = parse(await read('deploy/base/config/windlass.yaml'));
    const named = role.rules.find((rule: { resourceNames?: string[] }) => rule.resourceNames !== undefined);
    expect(named.resourceNames).toEqual([`windlass-epoch-${sha256(`epoch ${installation}`).slice(0, 20)}`]);
  });

  test('a worker is given its whole drain before it is killed, and no Service injects variables', async () => {
    const { worker } = parse(await read('deploy/base/config/windlass.yaml'));
    for (const file of ['deploy/base/worker.yaml', 'deploy/base/serve.yaml']) {
      const { spec } = (await documents(file)).find((document) => document.kind === 'Deployment').spec.template;
      expect(spec.terminationGracePeriodSeconds).toBeGreaterThanOrEqual(worker.drainSeconds + 5);
      expect(spec.enableServiceLinks).toBe(false);
      expect(JSON.stringify(spec.containers[0].env)).not.toContain('"value":');
    }
  });

  test('each egress has a policy, and instances get pods of no policy closed', async () => {
    const policies = await documents('deploy/base/network-policies.yaml');
    const chosen = policies.map((policy) => policy.spec.podSelector.matchLabels['windlass.dev/egress']);
    expect(chosen.filter(Boolean).sort()).toEqual(['custom', 'internet', 'none']);
    const closed = policies.find((policy) => policy.metadata.name === 'windlass-instances-closed').spec;
    expect(closed.policyTypes).toEqual(['Ingress', 'Egress']);
    expect(closed.egress ?? closed.ingress).toBeUndefined();
  });

  test('the profiles that are shipped to clusters are those of the examples, and each is mounted where it is looked for', async () => {
    const files = await readdir(join(root, 'examples/profiles'));
    for (const file of files)
      expect(await read(`deploy/base/config/${file}`), file).toBe(await read(`examples/profiles/${file}`));
    const [generated] = parse(await read('deploy/base/kustomization.yaml')).configMapGenerator;
    expect(generated.files.sort()).toEqual([...files, 'windlass.yaml'].map((file) => `config/${file}`).sort());
    for (const manifest of ['deploy/base/worker.yaml', 'deploy/base/serve.yaml']) {
      const { spec } = (await documents(manifest)).find((document) => document.kind === 'Deployment').spec.template;
      const { items } = spec.volumes.find((volume: { name: string }) => volume.name === 'config').configMap;
      expect(items.map(({ path }: { path: string }) => path).sort()).toEqual(
        [...files.map((file) => `profiles/${file}`), 'windlass.yaml'].sort(),
      );
    }
  });
});

describe('the configurations', () => {
  test.each(['examples/windlass.yaml', 'deploy/base/config/windlass.yaml'])(
    '%s is valid once it has keys, and its templates are accepted',
    async (file) => {
      await withKeys(file, async (path) => {
        const { config, templates } = await loadConfig({ file: path });
        expect(createRecipes(config, templates).all().length).toBe(Object.keys(config.profiles).length);
      });
    },
  );

  test('every request of the examples is accepted by the configuration beside it', async () => {
    await withKeys('examples/windlass.yaml', async (path) => {
      const offer = offerOf((await loadConfig({ file: path })).config);
      const files = await readdir(join(root, 'examples/requests'));
      expect(files.length).toBeGreaterThan(0);
      for (const file of files) acceptLaunch(parse(await read(`examples/requests/${file}`)), offer, {});
    });
  });
});

/** A copy of the configuration with fresh keys, in a folder as its manifest or guide lays it out. */
async function withKeys(file: string, use: (path: string) => Promise<void>): Promise<void> {
  const dir = await mkdtemp(join(tmpdir(), 'windlass-config-'));
  try {
    const config = parse(await read(file));
    config.secrets.sealing[0].publicKey = generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey.export({ format: 'jwk' });
    await cp(join(root, 'examples/profiles'), join(dir, 'profiles'), { recursive: true });
    await writeFile(join(dir, 'windlass.yaml'), stringify(config));
    await use(join(dir, 'windlass.yaml'));
  } finally {
    await rm(dir, { recursive: true, force: true });
  }
}
