import { access, mkdir, readFile, writeFile } from 'node:fs/promises';
import { homedir } from 'node:os';
import { delimiter, dirname, join, relative, resolve } from 'node:path';
import type { Command } from 'commander';
import { shellEnv } from '../config/environment.ts';
import { list, tree } from '../config/raw.ts';
import { parseYaml } from '../config/yaml.ts';
import { WindlassError } from '../errors.ts';
import { verb } from './context.ts';
import { configText, type Place } from './init-files.ts';
import { envLines, makeKeys } from './key-files.ts';
import { localKubeconfig } from './local-cluster.ts';
import { shippedProfiles } from './shipped-profiles.ts';

export function init(program: Command): void {
  const command = program
    .command('init')
    .description('write a commented windlass.yaml, its profiles and windlass.env for the current kubeconfig context');
  verb(command, async (context) => {
    const named = command.optsWithGlobals<{ config?: string }>().config;
    const file = resolve(named ?? shellEnv('WINDLASS_CONFIG') ?? 'windlass.yaml');
    const dir = dirname(file);
    const env = join(dir, 'windlass.env');
    await refuseExisting([file, env]);
    const place = await currentPlace();
    const made = await makeKeys('1');
    await mkdir(join(dir, 'profiles'), { recursive: true });
    const created = [
      await writeNew(
        env,
        `# Keep this file secret: whoever has it can read the secrets of every instance.\n${envLines(made)}`,
        0o600,
      ),
    ];
    created.push(await writeNew(file, configText(place, made), 0o644));
    for (const [name, text] of Object.entries(shippedProfiles))
      created.push(await writeNew(join(dir, 'profiles', `${name}.yaml`), text, 0o644));
    const files = created.filter((path) => path !== undefined).map((path) => relative(process.cwd(), path) || path);
    context.out.say(await nextSteps(place));
    await context.out.show({
      document: { created: files, kubeconfig: place.kubeconfig, context: place.context, namespace: place.namespace },
      text: () => files.map((path) => `wrote ${path}`).join('\n'),
    });
    return 0;
  });
}

/** New keys beside an old configuration (or the other way round) would fit nothing: all or none. */
async function refuseExisting(paths: readonly string[]): Promise<void> {
  const there = (await Promise.all(paths.map(async (path) => ((await exists(path)) ? path : undefined)))).filter(
    (path) => path !== undefined,
  );
  if (there.length === 0) return;
  throw new WindlassError('config_invalid', 'Nothing was written: init overwrites no file.', {
    issues: there.map((path) => ({ path, message: 'is there already: move it away first, or use another folder' })),
    hint: '`windlass config check` looks at the configuration that is there.',
  });
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}

/** Answers the path, or undefined when a file of that name was there (it stays as it is). */
async function writeNew(path: string, content: string, mode: number): Promise<string | undefined> {
  try {
    await writeFile(path, content, { flag: 'wx', mode });
    return path;
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'EEXIST') return undefined;
    throw error;
  }
}

/** Where kubectl would go now; without any kubeconfig, the embedded local cluster. */
async function currentPlace(): Promise<Place> {
  const local = resolve(localKubeconfig);
  const candidates = [
    ...(shellEnv('KUBECONFIG') ?? '')
      .split(delimiter)
      .filter(Boolean)
      .map((path) => resolve(path)),
    join(homedir(), '.kube', 'config'),
    local,
  ];
  for (const path of candidates) {
    const text = await readFile(path, 'utf8').catch((error: NodeJS.ErrnoException) => {
      if (error.code === 'ENOENT' || error.code === 'EACCES') return undefined;
      throw error;
    });
    if (text === undefined) continue;
    const parsed = parseYaml(text);
    const file = tree('value' in parsed ? parsed.value : undefined);
    const current = typeof file['current-context'] === 'string' ? file['current-context'] : '';
    const found = list(file.contexts)
      .map(tree)
      .find((entry) => entry.name === current);
    const namespace = tree(found?.context).namespace;
    if (found)
      return {
        kubeconfig: path,
        context: current,
        namespace: typeof namespace === 'string' && namespace !== '' ? namespace : 'default',
        embedded: path === local,
      };
  }
  return { kubeconfig: local, context: '', namespace: 'default', embedded: true };
}

/** A local cluster that runs already would only be refused a second start. */
async function nextSteps(place: Place): Promise<string> {
  const { ownerOfKubeconfig } = await import('../local-cluster/credentials.ts');
  const starts = place.embedded && (await ownerOfKubeconfig(place.kubeconfig)) !== 'running';
  const steps = [
    ...(starts ? ['windlass local-cluster &'] : []),
    'windlass doctor',
    'windlass worker &',
    'windlass launch --set profile=node --wait',
  ];
  return `Next, with a Redis on 127.0.0.1:6379 (or another redis.url):\n${steps.map((step) => `  ${step}`).join('\n')}`;
}
