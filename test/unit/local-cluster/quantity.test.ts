import { describe, expect, it } from 'vitest';
import { formatQuantity, parseQuantity } from '../../../src/local-cluster/api/quantity.ts';

describe('quantities', () => {
  it.each([
    ['1', 1000n],
    ['100m', 100n],
    ['0.5', 500n],
    ['1.5Gi', 1610612736000n],
    ['1Ki', 1024000n],
    ['1k', 1000000n],
    ['1e3', 1000000n],
    ['2E', 2000000000000000000000n],
    ['1Ei', 1152921504606846976000n],
    ['.5', 500n],
    ['5.', 5000n],
    ['1n', 1n],
    ['-1', -1000n],
    [3, 3000n],
  ])('%s is %s thousandths', (text, expected) => {
    expect(parseQuantity(text)).toBe(expected);
  });

  it.each(['', 'x', '1 Gi', '1gi', 'Gi', '1e', '--1', null, {}])('%s is none', (text) => {
    expect(parseQuantity(text)).toBeUndefined();
  });

  it.each([
    [1500n, '1500m', ''],
    [2000n, '2', '1'],
    [1073741824000n, '1Gi', '5Gi'],
    [1073741824000n, '1073741824', '1'],
    [3000000n, '3k', '1'],
    [0n, '0', '1Gi'],
  ])('%s thousandths read %s beside %s', (value, expected, like) => {
    expect(formatQuantity(value, like)).toBe(expected);
  });
});
