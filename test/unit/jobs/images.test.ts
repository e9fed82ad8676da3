import { describe, expect, it } from 'vitest';
import { matches } from '../../../src/jobs/images.ts';
import { randomInt } from '../../support/random.ts';

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
    ['node', 'node', true],
    ['*', 'node', true],
    ['*', 'library/node', false],
    // A `*` that comes to the end of its segment: the `**` before it may stand for more.
    ['registry.example/**/app-*:1', 'registry.example/app-a/app-b:1', true],
    ['**/a*b', 'r/ac/ab', true],
    ['**/a*b', 'r/ac/a/b', false],
    ['*', '', true],
    ['', 'x', false],
  ])('%s on %s is %s', (pattern, text, expected) => {
    expect(matches(pattern, text)).toBe(expected);
  });

  it('is what a regular expression of the same meaning says', () => {
    const random = randomInt(7);
    const word = (letters: string, length: number) => Array.from({ length }, () => letters[random(letters.length)]).join('');
    for (let round = 0; round < 3000; round += 1) {
      const [pattern, text] = [word('ab/**', random(8)), word('ab/', random(9))];
      const same = pattern.replace(/\*\*|\*/g, (star) => (star === '*' ? '[^/]*' : '.*'));
      expect([pattern, text, matches(pattern, text)]).toEqual([pattern, text, new RegExp(`^${same}$`).test(text)]);
    }
  });

  it('is linear: many stars over a long text end at once', () => {
    expect(matches(`${'a*'.repeat(50)}b`, 'a'.repeat(20_000))).toBe(false);
  });
});
