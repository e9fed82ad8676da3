import { execFileSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { parse } from 'yaml';
import { root } from '../support/root.ts';
import { built } from '../support/world.ts';

const manifest = JSON.parse(readFileSync(join(root, 'package.json'), 'utf8')) as {
  engines: { node: string };
  dependencies: Record<string, string>;
  devDependencies: Record<string, string>;
  bin: Record<string, string>;
};

describe('the package', () => {
  test('the lock file names no download address, so that any registry serves it', () => {
    const lock = readFileSync(join(root, 'package-lock.json'), 'utf8');
    expect(lock).not.toMatch(/"resolved"\s*:/);
    expect(lock).not.toMatch(/"(?:https?|git\+\w+):\/\/[^"]*\.tgz/);
  });

  test('the lock file agrees with package.json', () => {
    const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
      packages: Record<string, typeof manifest>;
    };
    expect(lock.packages['']?.dependencies).toEqual(manifest.dependencies);
    expect(lock.packages['']?.devDependencies).toEqual(manifest.devDependencies);
    expect(lock.packages['']?.engines).toEqual(manifest.engines);
  });

  test('every version is exact: another one may need a newer Node than we promise', () => {
    const versions = Object.entries({ ...manifest.dependencies, ...manifest.devDependencies });
    expect(versions.filter(([, version]) => !/^\d+\.\d+\.\d+$/.test(version))).toEqual([]);
  });

  test('no installed run-time package asks for more than Node 20.19', () => {
    const lock = JSON.parse(readFileSync(join(root, 'package-lock.json'), 'utf8')) as {
      packages: Record<string, { dev?: boolean; optional?: boolean; engines?: { node?: string } }>;
    };
    const tooNew = Object.entries(lock.packages)
      .filter(([, entry]) => !entry.dev && !entry.optional && /^\s*>=\s*(2[1-9]|[3-9]\d)\b/.test(entry.engines?.node ?? ''))
      .map(([name]) => name);
    expect(tooNew).toEqual([]);
  });

  test('the command as it is shipped finds what it loads late: YAML, schemas, its own manifest', {
    timeout: 120_000,
  }, async () => {
    await built();
    const windlass = (...args: string[]) =>
      execFileSync(process.execPath, [join(root, manifest.bin.windlass ?? ''), ...args], { encoding: 'utf8', stdio: 'pipe' });
    expect(parse(windlass('keys', 'new', '-o', 'yaml'))).toMatchObject({ env: { WINDLASS_SECRET_KEY: expect.any(String) } });
    expect(JSON.parse(windlass('schema', 'launch'))).toMatchObject({ schema: 'windlass/v1' });
    expect(JSON.parse(windlass('version'))).toMatchObject({ version: expect.stringMatching(/^\d/) });
  });

  // npm reads the bundled dependency tree for this, which takes seconds.
  test('what is published is dist, the examples and the manifests: no sources, tests or private files', {
    timeout: 60_000,
  }, () => {
    const output = execFileSync('npm', ['pack', '--dry-run', '--json', '--ignore-scripts'], {
      cwd: root,
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
    });
    const [pack] = JSON.parse(output) as [{ files: { path: string }[] }];
    const own = pack.files.map((file) => file.path).filter((path) => !path.startsWith('node_modules/'));
    const allowed = /^(dist|examples|deploy)\/|^(package\.json|README\.md|CHANGELOG\.md|LICENSE)$/;
    expect(own.filter((path) => !allowed.test(path))).toEqual([]);
    const needed = [
      'LICENSE',
      'README.md',
      'examples/windlass.yaml',
      'dist/agent/agent.mjs',
      'dist/cli/main.js',
      'dist/THIRD-PARTY.txt',
    ];
    expect(own).toEqual(expect.arrayContaining(needed));
    expect(own.filter((path) => /(^|\/)(\.env|windlass\.env|kubeconfig)$/.test(path))).toEqual([]);
  });
});
