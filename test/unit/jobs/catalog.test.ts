import { describe, expect, it } from 'vitest';
import { WindlassError } from '../../../src/errors.ts';
import { backoffMs, launchSchema, maxPayloadBytes, sweepSchema } from '../../../src/jobs/catalog.ts';
import { parsePayload } from '../../../src/jobs/parse.ts';

const refusal = (payload: unknown): WindlassError => {
  try {
    parsePayload(launchSchema, payload, 'launch');
  } catch (error) {
    if (error instanceof WindlassError) return error;
  }
  throw new Error('was not refused');
};
const base = { version: 1, instanceId: 'a', profile: 'node' };

describe('a launch payload', () => {
  it('passes when it is right', () => {
    const repository = { url: 'https://git.example/a.git', ref: 'main' };
    expect(parsePayload(launchSchema, { ...base, env: { A: '' }, repository }, 'launch')).toMatchObject({ repository });
  });

  it('is told every problem at once, each with its path', () => {
    const error = refusal({ version: 1, instanceId: ' x', profil: 'node', env: { HOME: '/', WINDLASS_X: '1', '1A': 'x' } });
    expect(error.code).toBe('payload_invalid');
    const paths = error.issues.map((issue) => issue.path);
    expect(paths).toEqual(expect.arrayContaining(['instanceId', 'profil', 'env.HOME', 'env.WINDLASS_X', 'env.1A']));
  });

  it.each([
    [{ url: 'http://git.example/a' }, 'repository.url'],
    [{ url: 'https://user:secret@git.example/a' }, 'repository.url'],
    [{ url: 'https://token@git.example/a' }, 'repository.url'],
    [{ url: 'https://git.example/a', ref: '--upload-pack=x' }, 'repository.ref'],
    [{ url: 'https://git.example/a', ref: 'a..b' }, 'repository.ref'],
  ])('refuses the repository %j', (repository, path) => {
    expect(refusal({ ...base, repository }).issues.map((issue) => issue.path)).toContain(path);
  });

  it('requests at most its limits; what is no quantity is told beside it', () => {
    const resources = {
      requests: { cpu: '2', memory: '1Gi', storage: 'much' },
      limits: { cpu: '1500m', memory: '1024Mi', storage: '1' },
    };
    const { issues } = refusal({ ...base, resources });
    expect(issues.map(({ path }) => path).sort()).toEqual(['resources.requests.cpu', 'resources.requests.storage']);
    expect(issues.find(({ path }) => path.endsWith('cpu'))?.message).toBe('must be at most the limit, 1500m');
  });

  it('takes either a profile or an app', () => {
    expect(refusal({ version: 1 }).issues[0]?.path).toBe('profile');
    expect(refusal({ ...base, app: 'shell' }).issues[0]?.path).toBe('profile');
  });

  it('over 64 KiB is payload_too_large', () => {
    expect(refusal({ ...base, prepare: 'x'.repeat(maxPayloadBytes) }).code).toBe('payload_too_large');
  });

  it('of a newer major version is schema_unsupported, whatever else it holds', () => {
    expect(refusal({ version: 2, other: true }).code).toBe('schema_unsupported');
  });

  it('names the same variable in env and secretEnv only once', () => {
    expect(refusal({ ...base, env: { A: '1' }, secretEnv: { A: '2' } }).issues[0]?.path).toBe('secretEnv.A');
  });
});

it('a sweep payload names what this version sweeps', () => {
  const result = sweepSchema.safeParse({ version: 1, kinds: ['everything'] });
  expect(result.error?.issues[0]?.message).toContain('orphans');
});

it('back-off grows, is capped at a minute and spreads over half its height', () => {
  expect(backoffMs(1, () => 0)).toBe(500);
  expect(backoffMs(1, () => 1)).toBe(1000);
  expect(backoffMs(20, () => 1)).toBe(60_000);
});
