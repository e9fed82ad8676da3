import { describe, expect, it } from 'vitest';
import { parseReference, pullError, resolveImage } from '../../../src/local-cluster/kubelet/images.ts';

const digest = `sha256:${'a'.repeat(64)}`;

describe('image references', () => {
  it.each([
    ['busybox', { domain: 'docker.io', path: 'library/busybox', tag: undefined }],
    ['node:22-slim', { domain: 'docker.io', path: 'library/node', tag: '22-slim' }],
    ['team/tool:1', { domain: 'docker.io', path: 'team/tool', tag: '1' }],
    ['registry.example:5000/a/b/node:1', { domain: 'registry.example:5000', path: 'a/b/node', tag: '1' }],
    ['localhost/x', { domain: 'localhost', path: 'x', tag: undefined }],
    [`node@${digest}`, { domain: 'docker.io', path: 'library/node', tag: undefined, digest }],
    [`node:1@${digest}`, { domain: 'docker.io', path: 'library/node', tag: '1', digest }],
  ])('reads %s', (image, expected) => {
    expect(parseReference(image)).toMatchObject(expected);
  });

  it.each(['', 'a b', 'node:', 'node:a/b:c', 'node@sha256:1', 'a//b', '-a', 'node:ü', 'a@b@c', ':tag', 'a..b'])(
    'refuses %j',
    (image) => {
      expect(parseReference(image)).toMatchObject({ error: expect.stringContaining('invalid reference format') });
    },
  );

  it('names the rule when a name is not lowercase', () => {
    expect(parseReference('Bad Image:x')).toEqual({
      error: 'invalid reference format: repository name (library/Bad Image) must be lowercase',
    });
  });
});

describe('what an image stands for', () => {
  it('goes by the last part of the path, whatever registry and tag', () => {
    expect(resolveImage('registry.example/team/node:22', {})).toMatchObject({
      kind: 'toolbox',
      toolbox: { name: 'node', entry: ['node'] },
    });
    expect(resolveImage('alpine', {})).toMatchObject({
      kind: 'toolbox',
      toolbox: { entry: ['sh'] },
      fullName: 'docker.io/library/alpine:latest',
    });
    expect(resolveImage('registry.example/nodes:1', {})).toEqual({ kind: 'unknown', fullName: 'registry.example/nodes:1' });
  });

  it("takes the operator's own images by name", () => {
    expect(resolveImage('x.example/tool:2', { tool: '/images/tool' })).toMatchObject({
      kind: 'toolbox',
      toolbox: { folder: '/images/tool' },
    });
  });

  it.each([
    ['fault.local/oom', { kind: 'oom', value: 0 }],
    ['fault.local/exit-42', { kind: 'exit', value: 42 }],
    ['fault.local/slow-pull-3:x', { kind: 'slow-pull', value: 3 }],
    ['fault.local/node-lost', { kind: 'node-lost', value: 0 }],
  ])('acts out %s', (image, fault) => {
    expect(resolveImage(image, {})).toMatchObject({ kind: 'fault', fault });
  });

  it.each(['fault.local/exit', 'fault.local/exit-x', 'fault.local/nothing'])('knows no fault %s', (image) => {
    expect(resolveImage(image, {}).kind).toBe('unknown');
  });

  it("says why it cannot be pulled in the runtime's words", () => {
    expect(pullError('x/y', 'docker.io/x/y:latest', false)).toMatch(
      /failed to resolve reference "docker.io\/x\/y:latest".*not found/,
    );
    expect(pullError('x/y', 'docker.io/x/y:latest', true)).toContain('toomanyrequests');
  });
});
