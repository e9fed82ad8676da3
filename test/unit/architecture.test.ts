import { readdirSync, readFileSync } from 'node:fs';
import { dirname, join, normalize } from 'node:path';
import { describe, expect, test } from 'vitest';
import { root } from '../support/root.ts';

/** What each part may import (ARCHITECTURE.md): everything points down, and only main.ts and the verbs see it all. */
const ground = ['errors.ts', 'error-codes.ts', 'effects.ts', 'names.ts', 'quantity.ts', 'clock.ts', 'log.ts'];
const below: Record<string, readonly string[]> = {
  config: [],
  agent: [],
  'local-cluster': [],
  inventory: ['config'],
  kubernetes: ['config', 'agent'],
  jobs: ['config', 'agent', 'inventory', 'kubernetes'],
  producers: ['config', 'inventory', 'jobs'],
  consumers: ['config', 'inventory', 'kubernetes', 'jobs', 'producers'],
  dashboard: ['config', 'inventory', 'jobs', 'producers'],
  'index.ts': ['config', 'inventory', 'jobs', 'producers'],
  'main.ts': ['config', 'agent', 'inventory', 'kubernetes', 'jobs', 'producers', 'consumers'],
  cli: ['config', 'agent', 'local-cluster', 'inventory', 'kubernetes', 'jobs', 'producers', 'dashboard', 'main.ts'],
};
/** Single edges against the table, with their reason. */
const excused: Record<string, string> = {};

/** Library → where its values may be imported. Types are free. */
const owners: Record<string, readonly string[]> = {
  bullmq: ['src/producers/queue.ts', 'src/consumers/'],
  ioredis: ['src/inventory/'],
  '@kubernetes/client-node': ['src/kubernetes/'],
  pino: ['src/log.ts'],
  commander: ['src/cli/'],
  fastify: ['src/dashboard/', 'src/consumers/health.ts'],
  '@bull-board/api': ['src/dashboard/'],
  '@bull-board/fastify': ['src/dashboard/'],
  selfsigned: ['src/local-cluster/'],
};

interface Import {
  readonly from: string;
  /** A file of ours (src/…), a package, or a node: module. */
  readonly to: string;
  readonly typeOnly: boolean;
  readonly lazy: boolean;
}

const sources = filesUnder('src', '.ts');
const imports = sources.flatMap(importsOf);

describe('the house', () => {
  test('every import points down', () => {
    const wrong = imports.filter(
      (edge) => edge.to.startsWith('src/') && !mayImport(edge) && !(`${edge.from} > ${edge.to}` in excused),
    );
    expect(wrong.map((edge) => `${edge.from} > ${edge.to}`)).toEqual([]);
  });

  test('every excuse is still needed', () => {
    const edges = imports.map((edge) => `${edge.from} > ${edge.to}`);
    expect(Object.keys(excused).filter((edge) => !edges.includes(edge))).toEqual([]);
  });

  test('no modules import each other in a circle', () => {
    expect(circle()).toEqual([]);
  });

  test('each library has one owner', () => {
    const wrong = imports.filter(
      ({ from, to, typeOnly }) => !typeOnly && owners[to] && !owners[to].some((place) => from.startsWith(place)),
    );
    expect(wrong.map((edge) => `${edge.from} > ${edge.to}`)).toEqual([]);
  });

  test('the program inside the Pod needs nothing but Node', () => {
    const agent = imports.filter((edge) => edge.from.startsWith('src/agent/program/'));
    const foreign = agent.filter((edge) => !edge.to.startsWith('node:') && !edge.to.startsWith('src/agent/'));
    expect(agent.length).toBeGreaterThan(0);
    expect(foreign.map((edge) => `${edge.from} > ${edge.to}`)).toEqual([]);
  });

  test('the environment is read in src/config, and by the program inside the Pod for itself', () => {
    const readers = sources.filter((file) => /\bprocess\.env\b/.test(read(file)));
    expect(readers.filter((file) => !file.startsWith('src/config/') && !file.startsWith('src/agent/program/'))).toEqual([]);
  });

  test('no file has more than 400 lines, and half of them at most 120', () => {
    const all = [...sources, ...filesUnder('scripts', '.mjs'), ...filesUnder('test', '.ts')];
    const long = all.filter((file) => lines(file) > 400);
    expect(long).toEqual([]);
    const lengths = sources.map(lines).sort((a, b) => a - b);
    expect(lengths[Math.floor(lengths.length / 2)]).toBeLessThanOrEqual(120);
  });
});

function mayImport({ from, to }: Import): boolean {
  const [source, target] = [part(from), part(to)];
  if (source === target || ground.includes(target)) return true;
  return below[source]?.includes(target) ?? false;
}

/** `src/jobs/stages/pod.ts` → `jobs`, `src/main.ts` → `main.ts`. */
function part(file: string): string {
  return file.split('/')[1] as string;
}

/** Some files that import each other in a circle, in order; empty when there is none. Lazy imports cannot deadlock. */
function circle(): string[] {
  const targets = new Map<string, string[]>();
  for (const { from, to, typeOnly, lazy } of imports) {
    if (!typeOnly && !lazy && to.startsWith('src/')) targets.set(from, [...(targets.get(from) ?? []), to]);
  }
  const done = new Set<string>();
  const visit = (file: string, path: readonly string[]): string[] => {
    if (path.includes(file)) return [...path.slice(path.indexOf(file)), file];
    if (done.has(file)) return [];
    for (const target of targets.get(file) ?? []) {
      const found = visit(target, [...path, file]);
      if (found.length > 0) return found;
    }
    done.add(file);
    return [];
  };
  for (const file of sources) {
    const found = visit(file, []);
    if (found.length > 0) return found;
  }
  return [];
}

function importsOf(file: string): Import[] {
  const text = read(file);
  const statements = text.matchAll(/^(?:import|export)\s+(type\s+)?(?:([^;'"]*?)\s+from\s+)?'([^']+)'/gm);
  const lazy = text.matchAll(/\bimport\('([^']+)'\)/g);
  return [
    ...[...statements].map(([, type, names = '', target]) =>
      edge(file, target as string, type !== undefined || onlyTypes(names), false),
    ),
    ...[...lazy].map(([, target]) => edge(file, target as string, false, true)),
  ];
}

/** `{ type A, type B }` */
function onlyTypes(names: string): boolean {
  const inner = /^\{([\s\S]*)\}$/.exec(names.trim())?.[1];
  if (inner === undefined) return false;
  return inner.split(',').every((name) => name.trim() === '' || name.trim().startsWith('type '));
}

function edge(from: string, target: string, typeOnly: boolean, lazy: boolean): Import {
  const to = target.startsWith('.') ? normalize(join(dirname(from), target)) : target;
  return { from, to, typeOnly, lazy };
}

function filesUnder(folder: string, extension: string): string[] {
  return readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter((name) => name.endsWith(extension))
    .map((name) => join(folder, name))
    .sort();
}

function read(file: string): string {
  return readFileSync(join(root, file), 'utf8');
}

function lines(file: string): number {
  return read(file).trimEnd().split('\n').length;
}
