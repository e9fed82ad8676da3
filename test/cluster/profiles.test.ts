import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, it } from 'vitest';
import { parse } from 'yaml';
import { createTrial } from '../../src/cli/doctor-profile.ts';
import type { ProfileConfig } from '../../src/config/schema.ts';
import { createRecipes } from '../../src/jobs/recipes.ts';
import { composePod } from '../../src/kubernetes/compose.ts';
import { createNamespace, realKubeconfig } from '../support/real-cluster.ts';
import { resumeSteps } from '../support/resume-steps.ts';
import { root } from '../support/root.ts';
import { createWorld, type World } from '../support/world.ts';

const shipped: Record<string, ProfileConfig> = parse(readFileSync(join(root, 'examples/windlass.yaml'), 'utf8')).profiles;
const templateOf = ({ podTemplateFile = '' }: ProfileConfig) => readFileSync(join(root, 'examples', podTemplateFile), 'utf8');
const names = Object.keys(shipped);

/** The template as it is shipped, in the configuration itself, with what `change` does to its text. */
function profileOf(name: string, change: (text: string) => string) {
  const { podTemplateFile: _file, ...profile } = shipped[name] as ProfileConfig;
  return { ...profile, podTemplate: change(templateOf(shipped[name] as ProfileConfig)) };
}
/** This cluster can pull nothing: only the images are replaced. */
const local = (text: string) => text.replace(/^( +image: ).*$/m, '$1node:local');
const launchable = (name: string) => {
  const profile = profileOf(name, local);
  const { agent } = profile;
  return agent?.delivery === 'init_image' ? { ...profile, agent: { ...agent, image: 'node:local' } } : profile;
};
/** What `restricted` is to refuse: else the other tests would show nothing. */
const escalating = (text: string) => text.replace('allowPrivilegeEscalation: false', 'allowPrivilegeEscalation: true');

describe('the shipped profiles, in a namespace that enforces `restricted`', () => {
  let world: World;
  let removeNamespace: () => Promise<void>;

  beforeAll(async () => {
    const namespace = await createNamespace('profiles');
    removeNamespace = namespace.remove;
    const profiles = {
      ...Object.fromEntries(names.map((name) => [name, profileOf(name, (text) => text)])),
      ...Object.fromEntries(names.map((name) => [`${name}-local`, launchable(name)])),
      ...Object.fromEntries(names.map((name) => [`${name}-escalating`, profileOf(name, escalating)])),
    };
    world = await createWorld({
      kubeconfig: realKubeconfig(),
      namespace: namespace.name,
      image: 'node:local',
      config: { profiles },
    });
    await world.worker();
  });
  afterAll(async () => {
    await world?.stop();
    await removeNamespace?.();
  });

  const tryToCreate = async (name: string) => {
    const recipes = createRecipes(world.loaded.config, world.loaded.templates);
    const { input } = await createTrial(world.loaded, world.cluster, recipes.find('profile', name));
    return world.cluster.create('pods', composePod(input), { dryRun: true });
  };

  it('are minimal, node and python, and node with a workspace that ends with its Pod', () => {
    expect(names.sort()).toEqual(['minimal', 'node', 'python', 'scratch']);
  });

  it.each(names)('%s is admitted as it is shipped, its own images included', async (name) => {
    const admitted = await tryToCreate(name);
    expect(admitted.metadata?.uid).toBeTruthy();
    const main = admitted.spec?.containers[0];
    expect(templateOf(shipped[name] as ProfileConfig)).toContain(`image: ${main?.image}\n`);
    expect(admitted.spec?.initContainers?.map(({ image }) => image)).toEqual(
      shipped[name]?.agent?.delivery === 'init_image' ? ['node:24-slim'] : undefined,
    );
  });

  it.each(names)('%s would be refused if it gave up one of its restrictions', async (name) => {
    await expect(tryToCreate(`${name}-escalating`)).rejects.toMatchObject({
      code: 'policy_denied',
      message: expect.stringContaining('allowPrivilegeEscalation'),
    });
  });

  it.each(names)(
    '%s becomes ready and runs commands as user 1000, its agent on the Node that was delivered',
    async (name) => {
      const record = await resumeSteps(world).launch(name, { profile: `${name}-local` });
      expect(await world.exec(name, ['/bin/sh', '-c', 'echo kept >file && id -u && cat file'])).toMatchObject({
        exitCode: 0,
        stdout: '1000\nkept\n',
      });
      const pod = await world.cluster.read('pods', record.pod?.name ?? '');
      const copier = pod?.status?.initContainerStatuses?.find((status) => status.name === 'windlass-runtime');
      expect(copier?.state?.terminated?.exitCode).toBe(shipped[name]?.agent?.delivery === 'init_image' ? 0 : undefined);
      const delivered = await world.exec(name, ['/bin/sh', '-c', '/opt/windlass/bin/node --version || echo none']);
      expect(delivered.stdout).toMatch(copier === undefined ? /^none\n$/ : /^v\d+/);
      await world.operator.producer.teardown({ version: 1, instanceId: name });
      await world.gone(name);
      expect(await world.leftovers()).toEqual([]);
    },
    120_000,
  );
});
