import { describe, expect, it } from 'vitest';
import { matches } from '../../../src/jobs/images.ts';

describe('an image pattern', () => {
  it.each([
    ['registry.example/team/*', 'registry.example/team/app:1', true],
    ['registry.example/team/*', 'registry.example/team/sub/app:1', false],
    ['registry.example/**', 'registry.example/team/sub/app:1', true],
    ['registry.example/**/app:*', 'registry.example/a/b/app:1', true],
    ['registry.example/*/app', 'registry.example/a/app', true],
    ['registry.example/*/app', 'registry.example/a/b/app', false],
    ['node:*', 'node:24', true],
    ['node', 'node:24', false],
    ['*', '', true],
    ['', 'x', false],
  ])('%s on %s is %s', (pattern, text, expected) => {
    expect(matches(pattern, text)).toBe(expected);
  });

  it('is linear: many stars over a long text end at once', () => {
    expect(matches(`${'a*'.repeat(50)}b`, 'a'.repeat(20_000))).toBe(false);
  });
});
