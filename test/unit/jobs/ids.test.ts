import { describe, expect, it } from 'vitest';
import { idProblem } from '../../../src/jobs/ids.ts';

describe('an instance id', () => {
  it.each(['a', '/', '%', '{}', ':', '*', '-a', 'a b', '😀'.repeat(128), 'é'.normalize('NFC'), '64'.repeat(32)])(
    'may be %j',
    (id) => {
      expect(idProblem(id)).toBeUndefined();
    },
  );

  it.each([
    ['', 'empty'],
    ['.', '"."'],
    ['..', '"."'],
    [' a', 'space'],
    ['a ', 'space'],
    ['a\n', 'control'],
    ['a\u200bb', 'format'],
    ['a\ud800', 'surrogate'],
    ['a\u2028b', 'separator'],
    ['a\u00a0b', 'separator'],
    ['e\u0301', 'normal form'],
    ['x'.repeat(129), '128'],
  ])('may not be %j', (id, why) => {
    expect(idProblem(id)).toContain(why);
  });
});
