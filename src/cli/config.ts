import type { Command } from 'commander';
import { verb } from './context.ts';

export function config(program: Command): void {
  const group = program.command('config').description('look at the configuration');
  verb(group.command('check').description('read it with everything it names; every problem at once'), async (context) => {
    const loaded = await context.load();
    const [{ checkClusters }, { loadTokens }] = await Promise.all([import('./checks.ts'), import('../config/load.ts')]);
    await checkClusters(loaded);
    await loadTokens(loaded);
    const { clusters, profiles, apps } = loaded.config;
    await context.out.show({
      document: {
        file: loaded.file,
        valid: true,
        clusters: Object.keys(clusters),
        profiles: Object.keys(profiles),
        apps: Object.keys(apps),
      },
      text: () => `${loaded.file} is valid.`,
    });
  });
  verb(
    group.command('show').description('the configuration in force, with defaults and overrides, without secrets'),
    async (context) => {
      const loaded = await context.load();
      const shown = { file: loaded.file, config: withoutSecrets(loaded.config) };
      const { stringify } = await import('yaml');
      await context.out.show({ document: shown, text: () => `# ${shown.file}\n${stringify(shown.config).trimEnd()}` });
    },
  );
}

/** Passwords in URLs and token hashes are left out; keys are only named by the configuration anyway. */
function withoutSecrets(value: unknown, key = ''): unknown {
  if (typeof value === 'string') return key === 'sha256' ? '***' : value.replace(/^([a-z][a-z0-9+.-]*:\/\/)[^/@]*@/i, '$1***@');
  if (Array.isArray(value)) return value.map((item) => withoutSecrets(item));
  if (value === null || typeof value !== 'object') return value;
  return Object.fromEntries(Object.entries(value).map(([name, inner]) => [name, withoutSecrets(inner, name)]));
}
